"""The protocols between packages. Most have one method, so that a plain ``async def`` satisfies them."""

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

    The task comes without its gold; ``session.blocks`` hold what the agent should remember. Two attributes are
    optional: ``retry_safe = False`` means that a second run could do harm, and ``async reset(task, session)`` undoes
    side effects before each retry.
    """

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Return the attempt; if it raises, the loop puts the error into ``Attempt.error``."""
        ...


@runtime_checkable
class Evaluator(Protocol):
    """Judges an attempt; sees the task with its reference."""

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Return the verdict."""
        ...


@runtime_checkable
class Reviser(Protocol):
    """Improves a draft that was judged; an async function will do."""

    async def __call__(self, task: Task, request: RevisionRequest) -> Revision:
        """Return the revised text; the task comes without its gold."""
        ...


@runtime_checkable
class Reflector(Protocol):
    """Writes down what to do differently.

    It sees the trials of the task so far, without gold, and learns from the last one.
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

        Lessons that the run ``skip_run`` wrote are left out.
        """
        ...

    async def record(self, task: Task, reflection: Reflection, *, provenance: Provenance) -> Lesson:
        """Store the lesson of a reflection; it is durable when this returns."""
        ...

    async def outcome(self, recall_id: str, evaluation: Evaluation) -> bool:
        """Note how the attempt went that a recall was for; later calls return False and change nothing.

        An evaluation that is not ``scored`` is passed too: it returns False, changes nothing, and a scored one may
        follow.
        """
        ...


@runtime_checkable
class Memory(Protocol):
    """Named text blocks that outlive a run."""

    async def read(self, name: str) -> str:
        """Return a block; empty if it was never written."""
        ...

    async def append(self, name: str, line: str) -> None:
        """Add a line to a block, unless the block has it already; safe beside other writers."""
        ...


MessageRole: TypeAlias = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
@checked
class ToolCall:
    """A tool call that a model asks for. ``arguments`` is the JSON text as the model wrote it, unchecked."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
@checked
class ToolSpec:
    """The description of a tool for a model; ``parameters`` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
@checked
class Message:
    """One message of a conversation; ``tool_call_id`` names the call that a tool message answers.

    ``opaque`` of an assistant message is that of its completion. A model that knows its format sends it back in place
    of ``content`` and ``tool_calls``.
    """

    role: MessageRole
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    # Not in the repr, and so not in logs: it holds a model's thoughts.
    opaque: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)


@dataclass(frozen=True, slots=True)
@checked
class Completion:
    """A model's answer; ``usage`` counts this one call.

    ``opaque`` is the provider's own JSON of the answer, under the name of its format (``{"chat": {...}}``), if it holds
    more than ``text`` and ``tool_calls``: reasoning, signatures of thoughts, parts. Providers expect it back unchanged,
    and :meth:`message` passes it on. It is not for people, evaluators or lessons.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = UNKNOWN_USAGE
    model: str = ""
    finish_reason: str = "stop"
    opaque: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)

    def message(self) -> Message:
        """Return the answer as a message, ``opaque`` included, to continue the conversation."""
        return Message("assistant", self.text, self.tool_calls, opaque=self.opaque)


@dataclass(frozen=True, slots=True)
@checked
class Sampling:
    """How a model samples; ``None`` leaves a setting to the model."""

    temperature: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None


@runtime_checkable
class ChatModel(Protocol):
    """A language model that answers a conversation.

    ``supports_tools`` says whether it takes ``tools`` natively; if not, agents describe them in text.
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
