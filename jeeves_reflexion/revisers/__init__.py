"""Revisers: they make a better text of a draft that was judged."""

from jeeves_reflexion.revisers.agent import AgentReviser
from jeeves_reflexion.revisers.blocks import Markers, ParsedEdits, markers_for, parse_edits
from jeeves_reflexion.revisers.edits import Edit, Edited, Refused, apply_edits
from jeeves_reflexion.revisers.function import FunctionReviser, as_reviser
from jeeves_reflexion.revisers.model import ModelReviser
from jeeves_reflexion.revisers.scope import Scope, choose, scope_of

__all__ = [
    "AgentReviser",
    "Edit",
    "Edited",
    "FunctionReviser",
    "Markers",
    "ModelReviser",
    "ParsedEdits",
    "Refused",
    "Scope",
    "apply_edits",
    "as_reviser",
    "choose",
    "markers_for",
    "parse_edits",
    "scope_of",
]
