"""Removes secrets, personal data and network addresses from text before it is stored or logged.

Redaction is applied at every write. Each find is replaced by ``[REDACTED:kind]``; the rest of the text stays. The
patterns are data, in ``patterns.toml`` beside this module; ``checks`` holds what a pattern can't express.
"""

from jeeves_reflexion.redaction.records import redact_id, redact_json, redact_record
from jeeves_reflexion.redaction.scan import PATTERNS, redact

__all__ = ["PATTERNS", "redact", "redact_id", "redact_json", "redact_record"]
