"""OpenTelemetry traces, in its conventions for generative AI, as transcripts.

An attempt is the outermost ``invoke_agent`` span with the spans beneath it; without one, each conversation of a trace.
A verdict is an event ``gen_ai.evaluation.result``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.loop.transcripts.lines import (
    ChatMessage,
    Transcript,
    conversation,
    task_of,
    transcript_id,
)
from jeeves_reflexion.loop.transcripts.span_records import Record, messages_of, records
from jeeves_reflexion.types import Evaluation, Task

_RESULT: Final = "gen_ai.evaluation.result"
_RESPONSE: Final = "gen_ai.response.id"
_CALL: Final = "gen_ai.tool.call.id"
_ATTEMPT: Final = "jeeves.attempt"
_LABELS: Final = {"pass": True, "passed": True, "fail": False, "failed": False}

_Attributes: TypeAlias = Mapping[str, Any]
_Result: TypeAlias = tuple[Record, _Attributes]
"""A verdict, and the span that holds it."""
_Attempts: TypeAlias = Mapping[str, Sequence[tuple[Record, list[ChatMessage]]]]
"""For each agent's span, or the task of a conversation: the spans with messages that belong to it."""


class Spans:
    """The spans of several files; a trace may be spread over them."""

    def __init__(self) -> None:
        self._spans = dict[tuple[str, str], Record]()
        self._logs = list[Record]()

    def add(self, value: Mapping[str, Any], place: str) -> None:
        """Add spans and log records. Raises :class:`ConfigurationError` that names their place."""
        for record, is_span in records(value, place):
            if is_span:
                self._spans[record.trace, record.span] = record
            else:
                self._logs.append(record)

    def transcripts(self) -> Iterator[Transcript]:
        """Yield the attempts in the order in which they began.

        Raises :class:`ConfigurationError` for spans without messages, and for messages that can't be read.
        """
        for log in self._logs:  # if only logs were exported, make spans for them
            unknown = Record.model_validate({"trace_id": log.trace, "span_id": log.span, "at": log.at})
            self._spans.setdefault((log.trace, log.span), unknown).events.append(log)
        self._logs = []
        traces = defaultdict[str, dict[str, list[tuple[Record, list[ChatMessage]]]]](dict)
        for span in sorted(self._spans.values(), key=lambda each: each.at):
            messages = messages_of(span)
            owner = self._owner(span, messages) if messages else None
            if owner is not None:
                traces[span.trace].setdefault(owner, []).append((span, messages))
        if self._spans and not traces:
            raise ConfigurationError(
                "the spans hold no messages: their content has to be asked for when they are recorded "
                "(OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, or what the framework's page says)"
            )
        results, failed = self._results_and_failures()
        for trace, attempts in traces.items():
            for owner, told in attempts.items():
                messages = _merged([each for _, each in told])
                if task_of(messages):
                    verdict = _verdict(list(self._judging(owner, attempts, results, trace)))
                    task, attempt = conversation(messages, failed=failed[trace])
                    agent = self._spans.get((trace, owner))
                    attempt = replace(attempt, error=None if agent is None else agent.error)
                    # The id comes from the first call: the agent's own span ends last, and may be missing yet.
                    calls = (span.span for span, _ in told if span.span != owner)
                    name = transcript_id(f"{trace} {next(calls, owner)}")
                    yield Transcript(name, Task(task), attempt, verdict)

    def _owner(self, span: Record, messages: Sequence[ChatMessage]) -> str | None:
        """Return the attempt to which a span belongs; None within a tool, and for this package's evaluators."""
        path = self._path(span).values()
        if any(each.operation == "execute_tool" for each in path):
            return None
        agents = [each for each in path if each.operation == "invoke_agent"]
        if not agents:
            return f"conversation {task_of(messages)}"
        ours = _ATTEMPT in agents[-1].attributes and agents[-1].attributes.get("gen_ai.agent.name") != "agent"
        return None if ours else agents[-1].span

    def _path(self, span: Record) -> dict[str, Record]:
        """Return a span and its ancestors, the outermost last."""
        path = {span.span: span}
        while (outer := self._spans.get((span.trace, span.parent or ""))) and outer.span not in path:
            span = path[outer.span] = outer
        return path

    def _results_and_failures(self) -> tuple[Mapping[str, list[_Result]], Mapping[str, set[str]]]:
        """Return the verdicts by trace and by the response that they judge, and the failed calls' ids by trace."""
        results = defaultdict[str, list[_Result]](list)
        failed = defaultdict[str, set[str]](set)
        for span in self._spans.values():
            call = span.attributes.get(_CALL)
            if span.operation == "execute_tool" and span.error is not None and call:
                failed[span.trace].add(str(call))
            for event in span.events:
                if event.name == _RESULT:
                    results[span.trace].append((span, event.attributes))
                    results[f"response {event.attributes.get(_RESPONSE)}"].append((span, event.attributes))
        return results, failed

    def _judging(
        self,
        owner: str,
        attempts: _Attempts,
        results: Mapping[str, list[_Result]],
        trace: str,
    ) -> Iterator[_Attributes]:
        """Yield the verdicts within an attempt, on its responses, or around it if it is the only attempt there."""
        spans = {span.span for span, _ in attempts[owner]} | {owner}
        agent = self._spans.get((trace, owner))
        number = None if agent is None else agent.attributes.get(_ATTEMPT)
        for span, result in results.get(trace, ()):
            judged = result.get(_ATTEMPT)
            around = [name for name, told in attempts.items() if span.span in self._path(told[0][0])]
            alone = len(around) == 1 if judged is None else judged == number
            if spans & self._path(span).keys() or (owner in around and alone):
                yield result
        for span, _ in attempts[owner]:
            answer = span.attributes.get(_RESPONSE)
            yield from (result for _, result in results.get(f"response {answer}", ()) if answer is not None)


def _merged(told: Sequence[Sequence[ChatMessage]]) -> list[ChatMessage]:
    """Return the messages of all model calls, each once.

    A call repeats the messages before it. If a history was cut or restarted, its new messages are added.
    """
    merged = list[ChatMessage]()
    for messages in told:
        if list(messages[: len(merged)]) == merged:
            merged = list(messages)
        else:
            merged += [each for each in messages if each not in merged]
    return merged


def _verdict(results: Sequence[_Attributes]) -> Evaluation | None:
    """Combine evaluations, the last one of each name; None if one of them can't be read as a verdict.

    A score counts if it lies in [0, 1] and its label does not contradict it, a label if it says pass or fail.
    """
    latest = {str(each.get("gen_ai.evaluation.name", "")): each for each in results}
    scores, labels = list[float](), list[bool | None]()
    for each in latest.values():
        label = _LABELS.get(str(each.get("gen_ai.evaluation.score.label")).lower())
        score = each.get("gen_ai.evaluation.score.value")
        # Not a score on another scale, such as 1 of 5 with the label fail.
        if isinstance(score, int | float) and 0 <= score <= 1 and (label is None or score != (not label)):
            scores.append(float(score))
        elif label is None:
            return None
        labels.append(label)
    if not labels:
        return None
    explanations = (str(each.get("gen_ai.evaluation.explanation") or "") for each in latest.values())
    return Evaluation(
        sum(scores) / len(scores) if len(scores) == len(labels) else None,
        passed=None if None in labels else all(labels),
        rationale="\n".join(filter(None, explanations)),
    )
