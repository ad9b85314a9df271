"""The frozen values that the packages exchange; each step of a run adds values and changes none."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, TypeAlias

from typing_extensions import TypeAliasType, TypeVar

from jeeves_reflexion import summary
from jeeves_reflexion.values import NO_USAGE as NO_USAGE  # noqa: PLC0414 - a value like the others
from jeeves_reflexion.values import UNKNOWN_USAGE as UNKNOWN_USAGE  # noqa: PLC0414 - as above
from jeeves_reflexion.values import Hider, checked, parametrised
from jeeves_reflexion.values import Usage as Usage  # noqa: PLC0414 - as above

JSON = TypeAliasType("JSON", "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None")
Outcome: TypeAlias = Literal["failed", "partial", "success", "decision"]
Role: TypeAlias = Literal["agent", "evaluator", "reflector"]
T = TypeVar("T", default=str)
"""The type of an agent's output: str by default, or a Pydantic model, a dataclass or other data."""
StopReason: TypeAlias = Literal[
    "passed", "max_attempts", "unscorable", "budget", "reflection_missing", "not_retry_safe"
]


@dataclass(frozen=True, slots=True)
@checked
class Task:
    """What is asked of an agent.

    ``reference`` is the gold answer: evaluators see it, agents and reflectors never do (:meth:`public`). ``id`` is by
    default the SHA-256 of the template (before substitution), or of the prompt without one, so a parametrised task
    keeps one id. ``expected_output`` describes the form wanted and, like ``metadata``, is public.
    """

    prompt: str
    template: str | None = None
    id: str = ""
    kind: str | None = None
    tools: tuple[str, ...] = ()
    expected_output: str | None = None
    reference: JSON = None
    metadata: Mapping[str, JSON] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.prompt.strip():
            raise ValueError("Task.prompt is empty: say what is asked")
        if not self.id:
            text = self.template if self.template is not None else self.prompt
            object.__setattr__(self, "id", hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())

    def public(self) -> Task:
        """Return the task without its gold answer."""
        return self if self.reference is None else replace(self, reference=None)


@dataclass(frozen=True, slots=True)
@checked
class Step:
    """One thought, action and observation of a trajectory; missing parts are empty."""

    thought: str = ""
    action: str = ""
    observation: str = ""
    failed: bool = False


@parametrised
@dataclass(frozen=True, slots=True)
@checked
class Attempt(Generic[T]):
    """One execution of a task by an agent.

    ``output`` is what evaluators and reflectors read. If the agent returned something other than a text (a Pydantic
    model, a dataclass, other data), that is ``value``, and ``output`` is its JSON; logs keep only ``output``.
    ``error`` says what the agent raised, ``interrupted`` why it was cut short (such as ``max_turns``); an attempt with
    either may still have an output. ``metadata`` holds what an environment reports, such as a reward.
    """

    output: str = ""
    steps: tuple[Step, ...] = ()
    usage: Usage = NO_USAGE
    error: str | None = None
    interrupted: str | None = None
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    seconds: float = 0.0
    value: T | None = None

    def revised(self, output: str) -> Attempt[T]:
        """Return the attempt with another text as its output, and without the value of the old one."""
        return replace(self, output=output, value=None)


@dataclass(frozen=True, slots=True)
class EvaluationError:
    """One error in an output: where (``path``), and what."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else f"{self.message}"


@dataclass(frozen=True, slots=True)
@checked
class Evaluation:
    """The verdict on an attempt.

    ``score`` lies in [0, 1]; ``None`` means that the attempt could not be scored, which differs from 0. If ``passed``
    is ``None``, the loop's threshold decides. ``quotes_gold`` names the fields whose text may quote the task's
    reference; :meth:`public` empties them before a reflector sees the verdict.
    """

    score: float | None
    passed: bool | None = None
    rationale: str = ""
    criteria_scores: Mapping[str, float] = field(default_factory=dict)
    issues: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    errors: tuple[EvaluationError, ...] = ()
    confidence: float | None = None
    usage: Usage = NO_USAGE
    quotes_gold: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name, value in (("score", self.score), ("confidence", self.confidence)):
            if value is not None and not 0.0 <= value <= 1.0:
                raise ValueError(f"Evaluation.{name} must lie in [0, 1] or be None, not {value!r}")
        if unknown := self.quotes_gold - _TEXT_FIELDS:
            raise ValueError(f"Evaluation.quotes_gold names no text field: {', '.join(sorted(unknown))}")

    @property
    def scored(self) -> bool:
        """Whether the attempt could be scored."""
        return self.score is not None or self.passed is not None

    @property
    def faults(self) -> tuple[str, ...]:
        """The issues, then the errors, each once."""
        return tuple(dict.fromkeys((*self.issues, *map(str, self.errors))))

    def meets(self, threshold: float) -> bool:
        """Whether the attempt passed: by ``passed`` if the evaluator said so, else by its score."""
        if self.passed is not None:
            return self.passed
        return self.score is not None and self.score >= threshold

    def public(self, reference: JSON = None) -> Evaluation:
        """Return the verdict without any quotation of the gold.

        The fields in ``quotes_gold`` are emptied. In the others, and in the names of criteria, each occurrence of the
        reference's text is replaced, for evaluators that quote it without saying so.
        """
        if reference is None and not self.quotes_gold:
            return self
        hide = Hider(reference)
        keep = _TEXT_FIELDS - self.quotes_gold
        return replace(
            self,
            rationale=hide(self.rationale) if "rationale" in keep else "",
            criteria_scores={hide(name): score for name, score in self.criteria_scores.items()},
            issues=tuple(map(hide, self.issues)) if "issues" in keep else (),
            suggestions=tuple(map(hide, self.suggestions)) if "suggestions" in keep else (),
            errors=tuple(
                EvaluationError(hide(e.path), hide(e.message)) for e in self.errors if "errors" in keep
            ),
        )


_TEXT_FIELDS = frozenset({"rationale", "issues", "suggestions", "errors"})


@dataclass(frozen=True, slots=True)
@checked
class Reflection:
    """A structured self-evaluation of a trial; ``lesson`` is the one sentence that is stored.

    ``fields`` holds the answers to the outcome's form, ``evidence`` the numbers of the steps that support the lesson.
    """

    lesson: str
    outcome: Outcome = "failed"
    fields: Mapping[str, str] = field(default_factory=dict)
    principle: str | None = None
    procedure: str | None = None
    evidence: tuple[int, ...] = ()
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a lesson came from: the run, the attempt and its score, the model, the agent and the time (since 1970)."""

    run_id: str
    attempt: int
    score: float | None
    model: str | None = None
    agent: str | None = None
    created_at: float = 0.0


LessonState: TypeAlias = Literal["active", "proposed", "retired"]
"""An active lesson is recalled, a proposed one waits for a person, and a retired one is kept with the reason."""

Trust: TypeAlias = Literal["own", "shared", "imported"]
"""Whose lesson it is. Lessons of others are shown to an agent as data, within a fence."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What is stored and recalled: one sentence, the task that taught it, and its provenance.

    ``support`` counts how often it was learned, merged lessons included; ``contradicts`` holds the ids of lessons that
    say the opposite; ``state_reason`` says why it is not active, or why it became so. ``evidence`` holds the numbers of
    the attempt's steps that support it.
    """

    id: str
    text: str
    task_id: str
    task_excerpt: str
    provenance: Provenance
    task_kind: str | None = None
    tools: tuple[str, ...] = ()
    outcome: Outcome = "failed"
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    state: LessonState = "active"
    state_reason: str = ""
    trust: Trust = "own"
    support: int = 1
    contradicts: tuple[str, ...] = ()
    evidence: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Lift:
    """How much higher attempts score with a lesson than without, with an interval and the number of each.

    ``value`` and the bounds are ``None`` while there is not enough data.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n_with: int = 0
    n_without: int = 0


@dataclass(frozen=True, slots=True)
class RecalledLesson:
    """A lesson that a recall found, with its cosine similarity, its lift, and why it is offered or not."""

    lesson: Lesson
    similarity: float
    reason: str
    lift: Lift | None = None


@dataclass(frozen=True, slots=True)
class Recall:
    """The result of one recall: the lessons offered to the agent, and those that were found but not offered.

    ``withheld`` holds lessons that the draw, which makes recall an experiment, held back. ``left_out`` holds those that
    were not picked, each with its reason, for example that it is not near enough to the task.
    """

    id: str
    task_id: str
    offered: tuple[RecalledLesson, ...] = ()
    withheld: tuple[RecalledLesson, ...] = ()
    left_out: tuple[RecalledLesson, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The offered sentences, best first."""
        return tuple(item.lesson.text for item in self.offered)


@parametrised
@dataclass(frozen=True, slots=True)
class Trial(Generic[T]):
    """One turn of the loop: what was recalled, done, judged and learned.

    ``block`` is the text of the lessons as the agent saw it. ``lesson`` is ``None`` if none was stored; ``pending``
    says that the reflection waits for ``Reflexion.commit``. ``exhausted`` names the limit of the budget that cut the
    turn short, and ``problems`` lists what else went wrong without ending it.
    """

    number: int
    attempt: Attempt[T]
    evaluation: Evaluation
    recall: Recall | None = None
    block: str = ""
    reflection: Reflection | None = None
    lesson: Lesson | None = None
    pending: bool = False
    passed: bool = False
    exhausted: str = ""
    problems: tuple[str, ...] = ()
    usage: Mapping[Role, Usage] = field(default_factory=dict)
    seconds: float = 0.0


@parametrised
@dataclass(frozen=True, slots=True)
class RunResult(Generic[T]):
    """The trials of one task and how the run ended.

    ``output`` is that of the best attempt: the one that passed, else the one with the highest score, the later of
    equals; an attempt that could not be scored ranks below every scored one. ``escalated`` says that all retries failed
    and that the preset hands the task, with all reflections, to the orchestrator. ``detail`` says more on the end.
    """

    run_id: str
    task: Task
    trials: tuple[Trial[T], ...]
    stop_reason: StopReason
    usage: Mapping[Role, Usage]
    seconds: float
    detail: str = ""
    escalated: bool = False

    def __str__(self) -> str:
        """Return how the run ended, its answer and its lessons, one per line; ``repr`` has everything."""
        return summary.lines(self)

    def summary(self) -> str:
        """Return a table of the trials: score, verdict, lessons recalled, tokens, seconds, what was learned."""
        return summary.table(self)

    @property
    def passed(self) -> bool:
        """Whether an attempt passed."""
        return any(trial.passed for trial in self.trials)

    @property
    def best(self) -> Trial[T] | None:
        """The best trial, or None if the run has no trial."""
        if not self.trials:
            return None
        scored = [(t.passed, t.evaluation.score is not None, t.evaluation.score or 0.0) for t in self.trials]
        return max(zip(scored, self.trials, strict=True), key=lambda each: (each[0], each[1].number))[1]

    @property
    def final(self) -> Trial[T] | None:
        """The last trial, or None if there is none."""
        return self.trials[-1] if self.trials else None

    @property
    def output(self) -> T | str:
        """What the best attempt returned; a text if it raised, an empty one if there was no attempt."""
        value = self.best.attempt.value if self.best else None
        return self.text if value is None else value

    @property
    def text(self) -> str:
        """The output of the best attempt as text (JSON for other data); empty if there was no attempt."""
        return self.best.attempt.output if self.best else ""

    @property
    def score(self) -> float | None:
        """The score of the best attempt; None if it could not be scored."""
        return self.best.evaluation.score if self.best else None

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        """The lessons that this run stored, each once, in order and in its last state."""
        return tuple({trial.lesson.id: trial.lesson for trial in self.trials if trial.lesson}.values())

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong without ending the run, each problem once, in order."""
        return tuple(dict.fromkeys(problem for trial in self.trials for problem in trial.problems))

    @property
    def total_usage(self) -> Usage:
        """Usage of agent, evaluator and reflector together."""
        return sum(self.usage.values(), Usage())
