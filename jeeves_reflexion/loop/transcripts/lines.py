"""Attempts that were made elsewhere, as JSON lines of this package or as the messages of a conversation.

A line is one attempt at a task, in one of two forms::

    {"task": "...", "output": "...", "score": 0.2, "reason": "...", "steps": [{"action": "...", "observation": "..."}]}
    {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}], "score": 0.2}

``score`` (0 to 1) and ``reason`` may be left out if an evaluator judges. ``id`` identifies the attempt. ``metadata`` is
kept out of prompts. A conversation's task is its first user message, its output the last assistant message, and its
tool calls are the steps.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.types import Attempt, Evaluation, Step, Task
from jeeves_reflexion.values import UNKNOWN_USAGE


class Given(BaseModel):
    """A value in a file; null counts as missing, because clients of chat models write it so."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        if not isinstance(given, Mapping):
            return given
        return {name: value for name, value in given.items() if value is not None}


class _Step(Given):
    thought: str = ""
    action: str = ""
    observation: str = ""
    failed: bool = False


class CalledFunction(Given):
    """The function that a model calls."""

    name: str
    arguments: str = ""


class ToolCall(Given):
    """A call of a tool."""

    id: str = ""
    function: CalledFunction


class ChatMessage(Given):
    """A message in the format of chat models."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] = ""
    tool_calls: list[ToolCall] = []
    tool_call_id: str = ""

    @field_validator("content")
    @classmethod
    def _without_calls(cls, given: str | list[dict[str, Any]]) -> str | list[dict[str, Any]]:
        if isinstance(given, list) and any(part.get("type") in {"tool_use", "tool_result"} for part in given):
            raise ValueError(
                "tool calls are read from tool_calls and from messages of the role tool, not from content parts"
            )
        return given

    @property
    def text(self) -> str:
        """The text of the message."""
        if isinstance(self.content, list):
            return "\n".join(str(part["text"]) for part in self.content if part.get("text"))
        return self.content


class _Line(Given):
    model_config = ConfigDict(extra="forbid")

    task: str = ""
    output: str = ""
    steps: list[_Step] = []
    messages: list[ChatMessage] = []
    score: float | None = Field(default=None, ge=0, le=1)
    reason: str = ""
    reference: str | None = None
    id: str = ""
    metadata: dict[str, Any] = {}

    @model_validator(mode="after")
    def _one_form(self) -> _Line:
        named = bool(self.task.strip())
        if (self.messages and (named or self.output or self.steps)) or not (self.messages or named):
            raise ValueError("it needs either task and output, or messages")
        if self.messages and not task_of(self.messages):
            raise ValueError("its messages hold no task: none is of the role user")
        return self


@dataclass(frozen=True, slots=True)
class Transcript:
    """An attempt that was made elsewhere; ``evaluation`` is None if it has yet to be judged."""

    id: str
    task: Task
    attempt: Attempt
    evaluation: Evaluation | None = None


def line_transcript(value: Mapping[str, Any], place: str) -> Transcript:
    """Return the transcript in a JSON line. Raises :class:`ConfigurationError` that names its place."""
    try:
        read = _Line.model_validate(value)
    except ValidationError as error:
        raise ConfigurationError(f"{place}: {first_problem(error)}") from error
    if read.messages:
        task, attempt = conversation(read.messages)
    else:
        steps = tuple(Step(**step.model_dump()) for step in read.steps)
        task, attempt = read.task, Attempt(read.output, steps=steps, usage=UNKNOWN_USAGE)
    given = read.id or json.dumps([task, attempt.output, [repr(step) for step in attempt.steps]])
    verdict = None if read.score is None else Evaluation(read.score, rationale=read.reason)
    return Transcript(transcript_id(given), Task(task, reference=read.reference), attempt, verdict)


def transcript_id(given: str) -> str:
    """Return the id under which a store notes that it has learned from a transcript."""
    return hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def first_problem(error: ValidationError) -> str:
    """Return the first problem and where it is."""
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else first["msg"]


def task_of(messages: Sequence[ChatMessage]) -> str:
    """Return the first text of the user; empty if there is none."""
    return next((each.text for each in messages if each.role == "user" and each.text.strip()), "")


def conversation(messages: Sequence[ChatMessage], *, failed: Collection[str] = ()) -> tuple[str, Attempt]:
    """Return the task of a conversation and the attempt at it; ``failed`` holds the ids of failed tool calls."""
    steps, waiting = list[Step](), dict[str, list[int]]()
    for message in messages:
        if message.role == "tool" and waiting.get(message.tool_call_id):
            place = waiting[message.tool_call_id].pop(0)
            steps[place] = replace(steps[place], observation=message.text)
        # Some servers reuse ids in each turn, or give none: a result belongs to the latest call with its id.
        waiting |= {call.id: [] for call in message.tool_calls}
        for place, call in enumerate(message.tool_calls):
            waiting[call.id].append(len(steps))
            action = f"{call.function.name} {call.function.arguments}".strip()
            steps.append(Step("" if place else message.text, action, failed=call.id in failed))
    answers = [each.text for each in messages if each.role == "assistant" and each.text.strip()]
    attempt = Attempt(answers[-1] if answers else "", steps=tuple(steps), usage=UNKNOWN_USAGE)
    return task_of(messages), attempt
