"""Transcripts of attempts that were made elsewhere, to learn from once each.

A file holds JSON lines of this package or conversations (:mod:`.lines`), OpenTelemetry spans (:mod:`.spans`) or a log
of Inspect (:mod:`.inspect_logs`). The format is detected from the content, so one file may mix formats.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.loop.learner import Advice, Learner
from jeeves_reflexion.loop.transcripts.inspect_logs import LOG_KEYS, log_transcripts
from jeeves_reflexion.loop.transcripts.lines import Transcript as Transcript
from jeeves_reflexion.loop.transcripts.lines import line_transcript
from jeeves_reflexion.loop.transcripts.span_records import is_telemetry
from jeeves_reflexion.loop.transcripts.spans import Spans
from jeeves_reflexion.session import Session
from jeeves_reflexion.types import Trial

_LEARNED: Final = "learned"  # the record collection of transcripts that were learned from
_ZIP: Final = b"PK\x03\x04"
_WORD: Final = re.compile(r"[^ \t\r\n]")


def read_transcripts(files: Sequence[str]) -> list[Transcript]:
    """Return the transcripts in files, each once; ``-`` is standard input.

    The spans of a trace may be spread over several files; their transcripts come last. Raises
    :class:`ConfigurationError` that names the file and line that can't be read, and :class:`MissingDependencyError` for
    a log of Inspect if Inspect is not installed.
    """
    found, spans = dict[str, Transcript](), Spans()
    for file in files:
        for transcript in _read(file, spans):
            found.setdefault(transcript.id, transcript)
    for transcript in spans.transcripts():
        found.setdefault(transcript.id, transcript)
    return list(found.values())


async def learn_transcripts(
    learner: Learner, store: VectorLessonStore, transcripts: Iterable[Transcript]
) -> AsyncIterator[tuple[Transcript, Trial | None]]:
    """Learn from each transcript that is new to the store, and yield it with its trial; the trial of others is None.

    A transcript is noted once its lesson is stored, so after an interruption the next call goes on. ``learner`` must
    write to ``store``. Raises :class:`~jeeves_reflexion.errors.LessonStoreError`.
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
            # The lesson is stored; a cancellation before this note would have it learned again.
            with anyio.CancelScope(shield=True):
                async with store_errors("note what was learned"):
                    await store.records.append_once(_LEARNED, transcript.id, None)
        yield transcript, trial


def _read(file: str, spans: Spans) -> Iterator[Transcript]:
    """Yield the transcripts of a file, and add its spans to ``spans``."""
    label = "standard input" if file == "-" else file
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        if data.startswith(_ZIP):
            yield from log_transcripts(data, label)
            return
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{label} can't be read: {error}") from error
    for value, place in _values(text, label):
        items = value if isinstance(value, list) else [value]
        if not items or not all(isinstance(each, Mapping) for each in items):
            raise ConfigurationError(f"{place}: it is not a JSON object")
        if items[0].keys() >= LOG_KEYS:
            for each in items:
                yield from log_transcripts(json.dumps(each).encode(), place)
        elif is_telemetry(items[0]):
            for each in items:
                spans.add(each, place)
        else:
            yield line_transcript({"messages": value} if value is items else value, place)


def _values(text: str, label: str) -> Iterator[tuple[Any, str]]:
    """Yield the JSON values of a text in turn, each on one line or several, with its place."""
    decoder, end, line, seen = json.JSONDecoder(), 0, 1, 0
    while found := _WORD.search(text, end):
        place = found.start()
        line, seen = line + text.count("\n", seen, place), place
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(f"{label}, line {line}: it is not JSON: {error}") from error
        yield value, f"{label}, line {line}"
