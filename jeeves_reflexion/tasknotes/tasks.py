"""Tasks of an ensemble: their lasting definitions, the guards and reviews of their outputs, and their outcomes.

A core :class:`~jeeves_reflexion.types.Task` is what one run asks of an agent. An :class:`EnsembleTask` is the lasting
definition from which each run makes such a task.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from jeeves_reflexion.callables import run, takes
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.protocols import ChatModel
from jeeves_reflexion.summary import counted, shortened
from jeeves_reflexion.tasknotes.strategy import ReflectionConfig, as_config
from jeeves_reflexion.tasknotes.values import TaskReflection, task_identity
from jeeves_reflexion.types import JSON, Attempt, Evaluation
from jeeves_reflexion.types import Task as CoreTask

InputGuard: TypeAlias = Callable[..., Any]
"""Called with ``(task)`` before the agent, sync or async. None or True accepts, False or a reason refuses."""

OutputGuard: TypeAlias = Callable[..., Any]
"""Called with ``(task, attempt)`` or only the output; answers like an :data:`InputGuard`."""

Reviewer: TypeAlias = Callable[..., Any]
"""Called with ``(task, attempt, evaluation)``, or the outcomes of a phase; returns a :class:`ReviewDecision`."""

Verdict: TypeAlias = Literal["accept", "edit", "reject"]


@dataclass(frozen=True, slots=True)
class ReviewDecision:
    """The decision of a reviewer. ``text`` is the edited output, or the reason for a rejection."""

    verdict: Verdict
    text: str = ""

    @classmethod
    def accept(cls) -> ReviewDecision:
        """Accept the output as it is."""
        return cls("accept")

    @classmethod
    def edit(cls, output: str) -> ReviewDecision:
        """Accept this output instead. The review of a phase can't edit."""
        return cls("edit", output)

    @classmethod
    def reject(cls, reason: str = "rejected in review") -> ReviewDecision:
        """Reject the output: nothing is learned from the run."""
        return cls("reject", reason)


async def decision_of(
    reviewer: Reviewer, *given: object, verdicts: Collection[Verdict] = ("accept", "edit", "reject")
) -> ReviewDecision:
    """Return a reviewer's decision.

    Raises what the reviewer raises, and :class:`ConfigurationError` if its verdict is not one of ``verdicts``.
    """
    answer = await run(reviewer, functools.partial(reviewer, *given))
    if not isinstance(answer, ReviewDecision) or answer.verdict not in verdicts:
        raise ConfigurationError(
            f"a review must return a ReviewDecision ({', '.join(verdicts)}), not {answer!r}"
        )
    return answer


async def refusal(
    guard: InputGuard | OutputGuard, task: CoreTask, attempt: Attempt | None = None
) -> str | None:
    """Return why a guard refuses, or None if it accepts. Raises what the guard raises."""
    given: tuple[object, ...] = (task,)
    if attempt is not None:
        given = (task, attempt) if takes(inspect.signature(guard), 2) else (attempt.output,)
    answer = await run(guard, functools.partial(guard, *given))
    if answer is None or answer is True:
        return None
    name = getattr(guard, "__name__", type(guard).__name__)
    if answer is False or isinstance(answer, str):
        return answer or f"refused by {name}"
    raise ConfigurationError(f"guard {name} returned {answer!r}: it must return None, a bool or a reason")


_PLACE: Final = re.compile(r"\{\{(?P<literal>\w+)\}\}|\{(?P<name>\w+)\}")


@dataclass(frozen=True, slots=True, eq=False)
class EnsembleTask:
    """The definition of a task, which each run does anew.

    ``description`` and ``expected_output`` may have placeholders such as ``{topic}``, filled from ``inputs`` or the
    inputs of the run; ``{{topic}}`` is the text ``{topic}``. Without any inputs both are used unchanged. ``reflect`` is
    True, False or a :class:`ReflectionConfig`. ``agent`` is any callable that
    :func:`~jeeves_reflexion.agents.as_agent` takes, or a model; by default the ensemble's. ``context`` names tasks of
    the same run whose outputs this task gets. Two tasks are equal only if they are the same object.
    """

    description: str
    expected_output: str | None = None
    reflect: bool | ReflectionConfig = False
    agent: ChatModel | Callable[..., Any] | None = None
    evaluator: ChatModel | Callable[..., Any] | None = None
    review: Reviewer | None = None
    input_guards: Sequence[InputGuard] = ()
    output_guards: Sequence[OutputGuard] = ()
    context: Sequence[EnsembleTask] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
    kind: str | None = None
    reference: JSON = None
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    id: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.description, str) or not self.description.strip():
            raise ConfigurationError("EnsembleTask.description is empty: describe the task")
        as_config(self.reflect)
        if self.review is not None and not callable(self.review):
            raise ConfigurationError(f"review must be callable, not {type(self.review).__name__}")
        for name in ("input_guards", "output_guards", "context"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "inputs", MappingProxyType(dict(self.inputs)))

    @classmethod
    def of(cls, task: EnsembleTask | str) -> EnsembleTask:
        """Return a text as a task; an ensemble task unchanged."""
        if isinstance(task, EnsembleTask):
            return task
        if not isinstance(task, str):
            raise ConfigurationError(
                "a task must be an EnsembleTask (jeeves_reflexion.tasknotes.Task) or a text, not "
                f"{type(task).__module__}.{type(task).__qualname__}"
            )
        return cls(task)

    @property
    def reflection(self) -> ReflectionConfig | None:
        """How the task is reflected on; None for no reflection."""
        return as_config(self.reflect)

    @property
    def identity(self) -> str:
        """The key of the task's notes."""
        return task_identity(self)

    def bound(self, inputs: Mapping[str, str] | None = None) -> CoreTask:
        """Return the task of one run. Raises :class:`ConfigurationError` for a placeholder without its input."""
        given = {**self.inputs, **(inputs or {})}
        for text in (self.description, self.expected_output or ""):
            names = sorted({match["name"] for match in _PLACE.finditer(text)} - {None, *given})
            if given and names:
                literal = " and ".join(f"{{{{{name}}}}}" for name in names)
                raise ConfigurationError(
                    f"the task has no input for {', '.join(names)}: pass inputs={{...}}, or write {literal} if the "
                    "braces belong to the text"
                )
        prompt = fill(self.description, given)
        return CoreTask(
            prompt,
            template=self.description if prompt != self.description else None,
            id=self.id,
            kind=self.kind,
            expected_output=None if self.expected_output is None else fill(self.expected_output, given),
            reference=self.reference,
            metadata=self.metadata,
        )


def fill(text: str, inputs: Mapping[str, object] | None) -> str:
    """Replace ``{name}`` in a text by the input of that name, and ``{{name}}`` by ``{name}``.

    A name without an input stays. Without any inputs the text is unchanged.
    """
    if not inputs:
        return text
    return _PLACE.sub(
        lambda place: (
            f"{{{place['literal']}}}" if place["literal"] else str(inputs.get(place["name"], place[0]))
        ),
        text,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """Tasks that are accepted together: nothing is learned from them until the review accepts them all.

    ``review`` is called with the outcomes, and accepts or rejects. ``reflect``, which is like that of a task, applies
    to its tasks without their own.
    """

    name: str
    tasks: Sequence[EnsembleTask]
    review: Reviewer | None = None
    reflect: bool | ReflectionConfig = False

    def __post_init__(self) -> None:
        as_config(self.reflect)
        if self.review is not None and not callable(self.review):
            raise ConfigurationError(f"review must be callable, not {type(self.review).__name__}")
        given: object = self.tasks
        if isinstance(given, str):  # its letters would be the tasks
            raise ConfigurationError(f"Phase.tasks must be a list of tasks, not {given!r}")
        object.__setattr__(self, "tasks", tuple(EnsembleTask.of(task) for task in self.tasks))

    def reflection_of(self, task: EnsembleTask) -> ReflectionConfig | None:
        """Return how a task of the phase is reflected on; None for no reflection."""
        return task.reflection or as_config(self.reflect)


Status: TypeAlias = Literal["accepted", "rejected", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The outcome of one task in one run.

    ``reason`` says why it was not accepted. ``notes`` are those that the agent was given, and ``version`` is their
    version (0: none; None: none were asked for, or they could not be read). ``reflection`` is what was stored after the
    run, if anything. ``problems`` lists what went wrong without failing the task.
    """

    task: EnsembleTask
    status: Status
    output: str = ""
    reason: str = ""
    attempt: Attempt | None = None
    evaluation: Evaluation | None = None
    decision: ReviewDecision | None = None
    notes: TaskReflection | None = None
    version: int | None = None
    reflection: TaskReflection | None = None
    problems: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether all guards, the evaluator and the reviews accepted it."""
        return self.status == "accepted"

    def __str__(self) -> str:
        text = self.output if self.accepted else self.reason
        lines = [f"{self.status}: {shortened(self.task.description)}: {shortened(text)}"]
        return "\n".join([*lines, *(f"problem: {shortened(problem)}" for problem in self.problems)])


@dataclass(frozen=True, slots=True)
class EnsembleResult:
    """The outcomes of a run, in the order of its tasks; ``print`` shows a line or two for each."""

    run_id: str
    outcomes: tuple[TaskOutcome, ...]
    seconds: float

    @property
    def accepted(self) -> bool:
        """Whether every task was accepted."""
        return all(outcome.accepted for outcome in self.outcomes)

    @property
    def output(self) -> str:
        """The output of the last accepted task; empty if there is none."""
        return next((outcome.output for outcome in reversed(self.outcomes) if outcome.accepted), "")

    def __str__(self) -> str:
        accepted = sum(outcome.accepted for outcome in self.outcomes)
        head = f"{accepted} of {counted(len(self.outcomes), 'task')} accepted ({self.seconds:.1f} s)"
        return "\n".join([head, *map(str, self.outcomes)])


Task = EnsembleTask
"""Short name of :class:`EnsembleTask` in this package; ``jeeves_reflexion.Task`` is the task of one run."""
