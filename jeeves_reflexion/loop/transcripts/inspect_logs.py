"""Logs of Inspect, read with Inspect itself: each sample is an attempt, and its scores are the verdict."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError, described
from jeeves_reflexion.loop.transcripts.lines import (
    CalledFunction,
    ChatMessage,
    ToolCall,
    Transcript,
    conversation,
    transcript_id,
)
from jeeves_reflexion.types import Attempt, Task

if TYPE_CHECKING:
    from inspect_ai.log import EvalSample

LOG_KEYS: Final = {"version", "status", "eval"}
"""A JSON object with these keys is a log of Inspect."""


def log_transcripts(data: bytes, place: str) -> Iterator[Transcript]:
    """Yield the samples of a log of either format, ``.eval`` or ``.json``.

    Raises :class:`MissingDependencyError` without Inspect, and :class:`ConfigurationError` for a log it can't read.
    """
    try:
        from inspect_ai.log import read_eval_log  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingDependencyError(f"{place}: a log of Inspect", "inspect-ai") from error
    try:
        kept = "json" if data.startswith(b"{") else "eval"
        log = read_eval_log(io.BytesIO(data), format=kept, resolve_attachments=True)
    except Exception as error:  # Inspect does not document what it raises for a damaged log
        raise ConfigurationError(f"{place}: Inspect can't read the log: {described(error)}") from error
    for sample in log.samples or ():
        try:
            yield _transcript(sample, f"{log.eval.eval_id} {sample.id} {sample.epoch}")
        except (ConfigurationError, ValueError) as error:  # scores of another scale, an empty input
            raise ConfigurationError(f"{place}, sample {sample.id}: {error}") from error


def _transcript(sample: EvalSample, name: str) -> Transcript:
    from jeeves_reflexion.adapters.inspect_ai import verdict_of  # noqa: PLC0415 - imports Inspect

    messages, failed = list[ChatMessage](), list[str]()
    for each in sample.messages:
        calls = (each.tool_calls or ()) if each.role == "assistant" else ()
        answered = (each.tool_call_id or "") if each.role == "tool" else ""
        error = each.error if each.role == "tool" else None
        if answered and error is not None:
            failed.append(answered)
        called = [
            ToolCall(id=it.id, function=CalledFunction(name=it.function, arguments=json.dumps(it.arguments)))
            for it in calls
        ]
        text = each.text or (error.message if error is not None else "")
        messages.append(ChatMessage(role=each.role, content=text, tool_calls=called, tool_call_id=answered))
    _, said = conversation(messages, failed=failed)
    given = sample.input
    if isinstance(given, str):
        prompt = given
    else:
        prompt = next((each.text for each in reversed(given) if each.role == "user"), "")
    target = sample.target if isinstance(sample.target, str) else "\n".join(sample.target)
    attempt = Attempt[Any](
        sample.output.completion,
        steps=said.steps,
        error=sample.error.message if sample.error is not None else None,
        interrupted=f"{sample.limit.type}_limit" if sample.limit is not None else None,
    )
    task = Task(prompt, id=f"inspect:{sample.id}", reference=target or None)
    verdict = verdict_of(list(sample.scores.values())) if sample.scores else None
    scored = verdict is not None and verdict.scored
    return Transcript(transcript_id(sample.uuid or name), task, attempt, verdict if scored else None)
