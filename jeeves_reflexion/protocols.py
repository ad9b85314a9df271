"""The contracts between the rooms: one method each, so that a plain ``async def`` satisfies most of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from jeeves_reflexion.drafts import Revision, RevisionRequest
from jeeves_reflexion.session import Session
from jeeves_reflexion.types import (
    JSON,
    UNKNOWN_USAGE,
    Attempt,
    Evaluation,
    Lesson,
    Provenance,
    Recall,
    Reflection,
    Task,
    Trial,
    Usage,
)
from jeeves_reflexion.values import checked


@runtime_checkable
class Agent(Protocol):
    """Tries a task once.

    The task has no gold in it; ``session.blocks`` hold what the agent should remember. Two optional attributes:
    ``retry_safe = False`` means that a second run could do harm, and ``async reset(task, session)`` undoes side
    effects before each retry.
    """

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Return the attempt; what is raised instead becomes ``Attempt.error`` in the loop."""
        ...


@runtime_checkable
class Evaluator(Protocol):
    """Judges an attempt; sees the task whole, with its reference."""

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Return the verdict."""
        ...


@runtime_checkable
class Reviser(Protocol):
    """Makes a better text of a draft that was judged; an async function is one."""

    async def __call__(self, task: Task, request: RevisionRequest) -> Revision:
        """Return the revised text; the task has no gold in it."""
        ...


@runtime_checkable
class Reflector(Protocol):
    """Writes down what to do differently.

    Sees the trials of the task so far, the last one being the one to learn from, without gold.
    """

    async def __call__(
        self, task: Task, trials: Sequence[Trial], *, problem: str | None = None
    ) -> Reflection:
        """Return the reflection; ``problem`` says why the previous answer was refused."""
        ...


@runtime_checkable
class LessonStore(Protocol):
    """Stores lessons, and recalls those that matter for a task."""

    async def recall(
        self, task: Task, *, k: int, run_id: str = "", attempt: int = 0, skip_run: str = ""
    ) -> Recall:
        """Return at most ``k`` lessons for an attempt of a run at the task; none is a valid answer.

        What the run ``skip_run`` wrote itself is left out.
        """
        ...

    async def record(self, task: Task, reflection: Reflection, *, provenance: Provenance) -> Lesson:
        """Store the lesson of a reflection; durable when it returns."""
        ...

    async def outcome(self, recall_id: str, evaluation: Evaluation) -> bool:
        """Note how the attempt went that a recall was for; once: later calls return False and change nothing.

        Nor does a verdict without a score, which is told too: it returns False, and leaves room for one that has one.
        """
        ...


@runtime_checkable
class Memory(Protocol):
    """Named text blocks that outlive a run."""

    async def read(self, name: str) -> str:
        """Return a block; empty if it was never written."""
        ...

    async def append(self, name: str, line: str) -> None:
        """Add a line to a block, unless it stands there already, whatever other writers do at the same time."""
        ...

    async def write(self, name: str, text: str) -> None:
        """Replace a block."""
        ...


MessageRole: TypeAlias = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
@checked
class ToolCall:
    """A model's wish to call a tool. ``arguments`` is the JSON text as the model wrote it, not yet checked."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
@checked
class ToolSpec:
    """What a model is told of a tool; ``parameters`` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
@checked
class Message:
    """One message of a conversation; ``tool_call_id`` names the call that a tool message answers.

    ``opaque`` is the ``opaque`` of the completion that an assistant message comes from. A model that knows its form
    sends that back in place of ``content`` and ``tool_calls``.
    """

    role: MessageRole
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    # Not in the repr: it holds what a model thought, and is never looked through by a reader of logs.
    opaque: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)


@dataclass(frozen=True, slots=True)
@checked
class Completion:
    """A model's answer; ``usage`` counts this one call.

    ``opaque`` is the answer as its provider wrote it, as JSON under the name of its form (``{"chat": {...}}``), where
    that says more than ``text`` and ``tool_calls`` do: reasoning, signatures of thoughts, parts. Providers want it back
    unchanged; :meth:`message` hands it on. It is no text for people, judges or lessons.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = UNKNOWN_USAGE
    model: str = ""
    finish_reason: str = "stop"
    opaque: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)

    def message(self) -> Message:
        """Return the answer as the message by which a conversation goes on, with all that came with it."""
        return Message("assistant", self.text, self.tool_calls, opaque=self.opaque)


@dataclass(frozen=True, slots=True)
@checked
class Sampling:
    """How a model picks its words; ``None`` leaves a setting to the model."""

    temperature: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None


@runtime_checkable
class ChatModel(Protocol):
    """A language model that answers a conversation.

    ``supports_tools`` says whether ``tools`` are offered natively; without, agents use a text form.
    """

    @property
    def name(self) -> str:
        """The model's name, as it appears in logs and in a lesson's provenance."""
        ...

    @property
    def supports_tools(self) -> bool:
        """Whether the model takes native tools."""
        ...

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, JSON] | None = None,
        sampling: Sampling | None = None,
    ) -> Completion:
        """Answer. ``schema`` asks for JSON of that schema, where the model can; raises ``ModelError``."""
        ...
