"""Takes secrets, and what names a person or a place in a network, out of text before it is stored or logged.

Redaction is code, applied at every write. A find is replaced by ``[REDACTED:kind]``; the rest of the text is untouched.
How secrets look is data: ``patterns.toml`` beside this module; what a pattern can't say is a function in ``checks``.
"""

from jeeves_reflexion.redaction.records import redact_id, redact_json, redact_record, redacting
from jeeves_reflexion.redaction.scan import PATTERNS, redact

__all__ = ["PATTERNS", "redact", "redact_id", "redact_json", "redact_record", "redacting"]
