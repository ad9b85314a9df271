"""Criteria of quality, with weights and thresholds, and the built-in sets of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.values import check_choice, check_share, is_number, plain_number

Kind: TypeAlias = Literal["llm", "regex", "function", "compare"]

DESCRIPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "accuracy": "Facts, figures, names and quotations are right; nothing is made up.",
        "clarity": "A reader of the intended kind understands each sentence at once; words are plain and exact.",
        "coherence": "Parts follow from one another; no part contradicts or repeats another.",
        "completeness": "Everything that the task asks for is there; no part is missing or left for later.",
        "correctness": "It does what the task asks, without mistakes in substance; code returns what it should.",
        "depth": "It goes beyond the obvious: causes, consequences, and what speaks against.",
        "edge_cases": "Empty, extreme, malformed and repeated inputs are handled as a careful user would expect.",
        "efficiency": "Time and memory grow no faster with the input than they need to; no needless work is done.",
        "engagement": "It holds the attention of the intended reader: concrete examples, a clear thread, no padding.",
        "logical_validity": "Each conclusion follows from what was stated or shown; no step is missing or false.",
        "objectivity": "Evidence for and against is weighed fairly; facts and opinions are kept apart.",
        "readability": "Another developer can read and change it easily: names, small parts, comments that say why.",
        "relevance": "All of it serves the question asked; nothing is beside the point.",
        "structure": "The order helps the reader: parts are of one kind each, in the order in which they are needed.",
        "syntax": "It is well-formed in its language or format and can be parsed without errors.",
        "tone": "The manner suits the reader and the occasion, and stays the same throughout.",
    }
)
"""The default descriptions of criteria, by name."""

CRITERIA_SETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "code": ("correctness", "efficiency", "readability", "edge_cases"),
        "writing": ("clarity", "coherence", "completeness", "tone"),
        "analysis": ("accuracy", "depth", "relevance", "objectivity"),
        "reasoning": ("logical_validity", "completeness", "clarity"),
    }
)
"""The default criteria by kind of task."""

GENERAL_CRITERIA = ("correctness", "completeness", "clarity", "relevance")
"""The default criteria of a task of unknown kind."""

_KINDS = {
    "code": "code coding codegen programming program software python humaneval function implementation",
    "writing": "writing write essay article documentation docs story blog email letter tutorial creative",
    "analysis": "analysis analyse analyze analytics research review evaluation report comparison",
    "reasoning": "reasoning reason math maths mathematics logic proof puzzle planning",
}
_KIND_OF_WORD = {word: kind for kind, words in _KINDS.items() for word in words.split()}


@dataclass
class QualityCriterion:
    """One aspect of a text's quality, how much it matters, and how it is measured.

    ``description`` says what is measured; it defaults to the built-in description of the name (:data:`DESCRIPTIONS`),
    then to the name. ``weight`` is the criterion's share of the overall score. ``threshold`` is the lowest acceptable
    score: below it the text is not satisfactory, whatever the overall score. A threshold of 0 never vetoes.
    ``evaluator`` and ``evaluator_config`` say how it is measured:

    - ``llm``: by a model; no configuration
    - ``regex``: ``pattern`` and the other arguments of :class:`~jeeves_reflexion.evaluators.regex.RegexCheck`
    - ``function``: ``function``, a callable for :func:`~jeeves_reflexion.evaluators.as_evaluator`, and ``timeout`` in
      seconds (60)
    - ``compare``: ``against`` (``reference`` or ``prior``), see :class:`~jeeves_reflexion.evaluators.Comparison`

    Raises :class:`ConfigurationError`. The configuration is checked when an evaluator is made of the criterion.
    """

    name: str
    description: str = ""
    weight: float = 1.0
    threshold: float = 0.7
    evaluator: str = "llm"
    evaluator_config: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ConfigurationError(f"a criterion needs a name, not {self.name!r}")
        label = f"criterion {self.name!r}"
        weight = plain_number(self.weight)
        if not is_number(weight) or not 0 < weight <= sys.float_info.max:
            raise ConfigurationError(f"{label}: weight must be a finite number above 0, not {self.weight!r}")
        self.weight = weight
        self.threshold = check_share(f"{label}: threshold", self.threshold)
        check_choice(f"{label}: evaluator", self.evaluator, Kind)
        if not isinstance(self.evaluator_config, dict):
            raise ConfigurationError(
                f"{label}: evaluator_config must be a dict, not {self.evaluator_config!r}"
            )
        self.description = self.description or DESCRIPTIONS.get(self.name, self.name)


def criteria_for(kind: str | None) -> list[QualityCriterion]:
    """Return new criteria for a kind of task.

    The first known word of the kind decides: ``code_generation``, ``Code`` and ``python-script`` are code. ``None`` and
    unknown kinds get :data:`GENERAL_CRITERIA`.
    """
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind or "").lower())
    known = next((_KIND_OF_WORD[word] for word in words if word in _KIND_OF_WORD), None)
    return [QualityCriterion(name) for name in (CRITERIA_SETS[known] if known else GENERAL_CRITERIA)]


def as_criteria(
    criteria: Sequence[str | QualityCriterion] | None, kind: str | None = None
) -> list[QualityCriterion]:
    """Return criteria given as names, objects or both; ``None`` stands for the set of the kind of task.

    Raises :class:`ConfigurationError` for an empty list and for two criteria with one name.
    """
    if criteria is None:
        return criteria_for(kind)
    if isinstance(criteria, str) or not isinstance(criteria, Sequence):
        raise ConfigurationError(f"criteria must be a list of names or criteria, not {criteria!r}")
    made = [QualityCriterion(item) if isinstance(item, str) else item for item in criteria]
    for item in made:
        if not isinstance(item, QualityCriterion):
            raise ConfigurationError(f"a criterion must be a name or a QualityCriterion, not {item!r}")
    names = [item.name for item in made]
    if not names:
        raise ConfigurationError("criteria is empty: name at least one, or pass None for the default set")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigurationError(f"two criteria are called {', '.join(twice)}")
    return made
