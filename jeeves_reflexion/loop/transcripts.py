"""Transcripts of attempts that were made elsewhere, read from JSON lines, and learned from once each.

A line is an attempt of one task, in one of two forms::

    {"task": "...", "output": "...", "score": 0.2, "reason": "...", "steps": [{"action": "...", "observation": "..."}]}
    {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}], "score": 0.2}

``score`` (0 to 1) and ``reason`` may be left out where somebody judges, ``id`` names the attempt, and ``metadata`` is
kept out of prompts. A conversation's task is its first user message, its output the last assistant message, and its
calls of tools are the steps.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import anyio
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.loop.learner import Advice, Learner
from jeeves_reflexion.session import Session
from jeeves_reflexion.types import Attempt, Evaluation, Step, Task, Trial

_LEARNED: Final = "learned"  # the collection that says which transcripts a library has learned from


class _Step(BaseModel):
    thought: str = ""
    action: str = ""
    observation: str = ""
    failed: bool = False


class _Function(BaseModel):
    name: str
    arguments: str = ""


class _Call(BaseModel):
    id: str = ""
    function: _Function


class _Message(BaseModel):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_Call] = []
    tool_call_id: str = ""

    @property
    def text(self) -> str:
        """The words of the message."""
        if isinstance(self.content, list):
            return "\n".join(str(part["text"]) for part in self.content if part.get("text"))
        return self.content or ""


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid")

    task: str = ""
    output: str = ""
    steps: list[_Step] = []
    messages: list[_Message] = []
    score: float | None = Field(default=None, ge=0, le=1)
    reason: str = ""
    reference: str | None = None
    id: str = ""
    metadata: dict[str, Any] = {}

    @model_validator(mode="after")
    def _one_form(self) -> _Line:
        if bool(self.messages) == bool(self.task.strip()):
            raise ValueError("it needs either task and output, or messages")
        if self.messages and not any(each.role == "user" and each.text.strip() for each in self.messages):
            raise ValueError("its messages hold no task: none is the user's")
        return self


@dataclass(frozen=True, slots=True)
class Transcript:
    """An attempt that was made elsewhere; ``evaluation`` is None where somebody has to judge it."""

    id: str
    task: Task
    attempt: Attempt
    evaluation: Evaluation | None = None


def read_transcripts(files: Sequence[str]) -> list[Transcript]:
    """Return the transcripts of files of JSON lines, in their order, each once; ``-`` is standard input.

    Raises :class:`ConfigurationError` that names file and line of the first that can't be read.
    """
    found: dict[str, Transcript] = {}
    for file in files:
        label = "standard input" if file == "-" else file
        try:
            data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
            lines = data.decode("utf-8-sig").split("\n")  # text has other ends of lines
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{label} can't be read: {error}") from error
        for number, line in enumerate(lines, 1):
            if line.strip():
                transcript = _transcript(line, f"{label}, line {number}")
                found.setdefault(transcript.id, transcript)
    return list(found.values())


async def learn_transcripts(
    learner: Learner, store: VectorLessonStore, transcripts: Iterable[Transcript]
) -> AsyncIterator[tuple[Transcript, Trial | None]]:
    """Learn from each transcript that this store has not learned from yet; None stands for one that it has.

    One is noted when its lesson is stored, so a run that was stopped goes on with the next call. ``learner`` writes
    to ``store``. Raises :class:`~jeeves_reflexion.errors.LessonStoreError`.
    """
    for transcript in transcripts:
        async with store_errors("look up what was learned"):
            known = await store.records.get(_LEARNED, transcript.id)
        if known is not None:
            yield transcript, None
            continue
        advice = Advice("", None, Session(id=f"transcript-{transcript.id}"))
        trial = await learner.learn_from(
            transcript.task, transcript.attempt, transcript.evaluation, advice=advice
        )
        if trial.evaluation.scored and not trial.problems:
            # The lesson is stored: an interrupt in between would have it learned again.
            with anyio.CancelScope(shield=True):
                async with store_errors("note what was learned"):
                    await store.records.append_once(_LEARNED, transcript.id, None)
        yield transcript, trial


def _transcript(line: str, place: str) -> Transcript:
    try:
        read = _Line.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigurationError(f"{place}: {f'{where}: ' if where else ''}{first['msg']}") from error
    if read.messages:
        task, output, steps = _conversation(read.messages)
    else:
        task, output = read.task, read.output
        steps = [Step(**step.model_dump()) for step in read.steps]
    given = read.id or json.dumps([task, output, [repr(step) for step in steps]])
    verdict = None if read.score is None else Evaluation(read.score, rationale=read.reason)
    return Transcript(
        hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()[:32],
        Task(task, reference=read.reference),
        Attempt(output, steps=tuple(steps)),
        verdict,
    )


def _conversation(messages: Sequence[_Message]) -> tuple[str, str, list[Step]]:
    task = next(each.text for each in messages if each.role == "user" and each.text.strip())
    answers = [each.text for each in messages if each.role == "assistant" and each.text.strip()]
    return task, answers[-1] if answers else "", list(_steps(messages))


def _steps(messages: Sequence[_Message]) -> Iterator[Step]:
    results = {each.tool_call_id: each.text for each in messages if each.role == "tool"}
    for message in messages:
        thought = message.text
        for call in message.tool_calls:
            action = f"{call.function.name} {call.function.arguments}".strip()
            yield Step(thought, action, results.get(call.id, ""))
            thought = ""
