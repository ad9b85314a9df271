"""How lessons are kept, picked and credited."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.lessons.checks import Check
from jeeves_reflexion.lessons.credit.effects import Withholding
from jeeves_reflexion.lessons.credit.ledger import MAX_AGE
from jeeves_reflexion.lessons.principals import Principal
from jeeves_reflexion.lessons.records import Key
from jeeves_reflexion.lessons.screening.characters import clean_characters
from jeeves_reflexion.lessons.screening.screens import Screen
from jeeves_reflexion.redaction import redact_id
from jeeves_reflexion.types import Task, Trust
from jeeves_reflexion.values import check_choice, check_share, check_whole, checked_settings
from vectorstores.base import Filter

Order: TypeAlias = Literal["similarity", "own_first", "failures_first", "recency"]
"""Which lessons come before all others, whatever their relevance: none, those of the task itself, those of failed
attempts, or the newest."""


@dataclass(frozen=True, slots=True)
@checked_settings
class Picking:
    """How lessons are picked from those that were found.

    ``utility_weight`` is how many points of similarity one point of expected score is worth.
    ``diversity``, in [0, 1], is the weight of likeness to lessons already picked, against relevance (maximal marginal
    relevance; 0: none). If lessons share at least ``max_likeness``, in (0, 1], of their words in the same order, only
    one of them is recalled; with 1.0 all are. ``max_tokens`` bounds all recalled lessons together.
    """

    utility_weight: float = 1.0
    max_likeness: float = 1.0
    max_tokens: int = 1000
    diversity: float = 0.0

    def __post_init__(self) -> None:
        if not self.utility_weight >= 0.0:
            raise ConfigurationError(f"utility_weight must be at least 0, not {self.utility_weight}")
        if not 0.0 < self.max_likeness <= 1.0:
            raise ConfigurationError(f"max_likeness must lie in (0, 1], not {self.max_likeness}")
        check_share("diversity", self.diversity)
        check_whole("max_tokens", self.max_tokens)


@dataclass(frozen=True, slots=True)
@checked_settings
class Credit:
    """How recalls become an experiment, and how its results are used.

    ``withholding`` draws which lessons are withheld; ``retire`` retires a lesson once it is shown to do harm. A recall
    uses results that are at most ``max_age`` seconds old.
    """

    withholding: Withholding = Withholding()  # noqa: RUF009 - frozen
    retire: bool = True
    max_age: float = MAX_AGE

    def __post_init__(self) -> None:
        if not self.max_age >= 0:
            raise ConfigurationError(f"max_age must be at least 0 seconds, not {self.max_age}")


checked_k = functools.partial(check_whole, "k")
"""Return ``k`` as an int; raises :class:`ConfigurationError` unless it is a whole number of at least 1."""


@dataclass(frozen=True, slots=True)
@checked_settings
class LessonSettings:
    """How lessons are kept and picked.

    ``key`` is what a lesson is found by: the task that taught it, its own text, or both. ``min_similarity`` is the
    cosine similarity below which nothing is recalled; ``picking`` says how lessons are picked from those above it.
    ``order`` says which of these come first: those of the task itself, those of failed attempts, the newest, or none
    ("similarity"). ``where`` returns a filter on metadata for a task, such as ``{"task_id": task.id}``.
    ``trust`` says whose lessons this store writes; with ``propose`` they wait for a person's approval.
    ``principal`` names who opens the store (by default ``JEEVES_PRINCIPAL`` of the environment). Lessons that another
    principal wrote are proposed to it until they are approved, except those of writers that it ``accepts``.
    ``screen`` judges each text that the rules of screening let pass. A text that it objects to, or fails on, waits in
    quarantine. The loop asks ``check`` whether a new lesson would change an attempt; if not, the lesson goes back to
    the reflector once, with the reason.
    ``keep_copies`` stores a lesson again if an equal one is stored; otherwise the support of that one grows.
    ``credit`` ranks and retires lessons by their effect on the attempts that had them.
    """

    key: Key = "task"
    min_similarity: float = 0.3
    picking: Picking = field(default_factory=Picking)
    order: Order = "similarity"
    trust: Trust = "own"
    propose: bool = False
    principal: str = field(default_factory=lambda: os.environ.get("JEEVES_PRINCIPAL", ""))
    accepts: Collection[str] = ()
    screen: Screen | None = None
    check: Check | None = None
    keep_copies: bool = False
    credit: Credit | None = None
    where: Callable[[Task], Filter | None] | None = None

    def __post_init__(self) -> None:
        for name, kind in (("key", Key), ("order", Order), ("trust", Trust)):
            check_choice(name, getattr(self, name), kind)
        if not -1.0 <= self.min_similarity <= 1.0:
            raise ConfigurationError(f"min_similarity must lie in [-1, 1], not {self.min_similarity!r}")
        if isinstance(self.accepts, str) or not all(isinstance(each, str) for each in self.accepts):
            raise ConfigurationError(f"accepts must be a collection of names, not {self.accepts!r}")
        if redact_id(self.principal) != self.principal:
            # Redaction could make two names equal.
            raise ConfigurationError(
                "principal must be a name without personal data: it is stored with lessons"
            )
        if " ".join(clean_characters(self.principal).split()) != self.principal:
            # People approve and accept writers by what their names look like.
            raise ConfigurationError(
                "principal must be a name on one line, without hidden or disguised characters: not "
                f"{self.principal!a:.80}"
            )

    @property
    def reader(self) -> Principal:
        """Who opens the store, and which writers they accept."""
        return Principal(self.principal, frozenset(self.accepts))


def check_of(store: object) -> Check | None:
    """Return the check of a store's settings; None for a store without such settings."""
    settings = getattr(store, "settings", None)
    return settings.check if isinstance(settings, LessonSettings) else None
