"""The step after acceptance: writes better notes on a task, and shows them before its prompt in the next run.

Nothing here fails a task: whatever goes wrong, in a store, a strategy or a model, costs a warning (in the log, and as
an event) and no more. Notes pass the gate of the lessons, and stand in a prompt as data.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import anyio
from anyio.to_thread import run_sync

from jeeves_reflexion.callables import run as run_callable
from jeeves_reflexion.errors import ConfigurationError, described
from jeeves_reflexion.events import NotesApplied, TaskReflectedEvent, Warned
from jeeves_reflexion.lessons.screening.characters import clean_characters, inert
from jeeves_reflexion.lessons.screening.rules import screen
from jeeves_reflexion.protocols import ChatModel
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import Session, logger
from jeeves_reflexion.tasknotes.evolution import NoteHistory
from jeeves_reflexion.tasknotes.store import PlainStore, VersionedReflectionStore
from jeeves_reflexion.tasknotes.strategy import ReflectionConfig, failed_reflection, strategy_of
from jeeves_reflexion.tasknotes.tasks import fill
from jeeves_reflexion.tasknotes.values import (
    MARGIN,
    AnyTask,
    ReflectionInput,
    ReflectionStore,
    ReflectionStrategy,
    TaskReflection,
    changed_texts,
    description_of,
    storable,
    storable_text,
    task_identity,
)
from jeeves_reflexion.text import cut_middle, estimate_tokens, one_line
from jeeves_reflexion.types import Attempt, Evaluation, Task

T = TypeVar("T")

STORE_SECONDS: Final = 30.0
REFLECTION_SECONDS: Final = 300.0
_REFUSED: Final = "what gives orders was left out of the notes on a task"
_NOT_TAKEN: Final = "what it says was taken back, or another one was there first"


@dataclass(frozen=True, slots=True)
class Notes:
    """A task's notes as one run finds them: version 0 is none, None is that of a store without versions."""

    identity: str
    reflection: TaskReflection | None = None
    version: int | None = None


class TaskReflector:
    """Reads and writes the notes of tasks in one store; ``store=None`` does nothing.

    Serves many runs at once. A store with the two methods of :class:`ReflectionStore` alone gets no scores, and of two
    reflections at once it keeps the last. A call of the store may take 30 s, one of the strategy 300 s.
    """

    def __init__(self, store: ReflectionStore | None) -> None:
        if store is not None and (isinstance(store, type) or not isinstance(store, ReflectionStore)):
            given = f"the class {store.__name__}" if isinstance(store, type) else type(store).__name__
            raise ConfigurationError(
                f"reflection_store must be an object with the methods store and retrieve, not {given}"
            )
        self.store = store
        self._notes = (
            store if store is None or isinstance(store, VersionedReflectionStore) else PlainStore(store)
        )

    async def recall(self, task: AnyTask, session: Session) -> Notes:
        """Return the task's notes for a run; none, and a warning, where the store fails."""
        identity, store = task_identity(task), self._notes
        if store is None:
            return Notes(identity)
        try:
            history = await self._history(store, identity)
            reflection, refused = await run_sync(admit, history.reflection)
        except Exception as error:  # noqa: BLE001 - a run without notes is better than no run
            await _warn(session, "the notes of a task could not be read", error)
            return Notes(identity)
        if refused:
            await _warn(session, _REFUSED, refused)
        has_versions, version = not isinstance(store, PlainStore), 0
        if reflection is not None and reflection.complete:
            version = history.current if has_versions else 0
            await session.emit(
                NotesApplied(run_id=session.id, attempt=session.attempt, identity=identity, version=version)
            )
        return Notes(identity, reflection, version if has_versions else None)

    async def score(self, notes: Notes, score: float | None, session: Session) -> None:
        """Note what a run under these notes scored."""
        store, version = self._notes, notes.version
        if store is None or version is None or score is None:
            return
        try:
            await _asked(lambda: store.score(notes.identity, version, score))
        except Exception as error:  # noqa: BLE001 - as above
            await _warn(session, "the score of a run could not be noted", error)

    async def reflect(
        self,
        task: Task,
        output: str,
        *,
        config: ReflectionConfig | None,
        model: ChatModel | None = None,
        session: Session | None = None,
        evaluation: Evaluation | None = None,
        attempt: Attempt | None = None,
    ) -> TaskReflection | None:
        """Reflect on an accepted output; return what was stored, if anything.

        ``config=None`` does nothing. What is stored is announced by :class:`TaskReflectedEvent`. That there could be
        no reflection is stored, unannounced, where the store keeps versions and has nothing better.
        """
        session, store = session or Session(), self._notes
        if config is None or store is None:
            return None
        try:
            strategy = strategy_of(config, model)
            history = await self._history(store, task_identity(task))
            prior, _ = await run_sync(admit, history.reflection)
            public = None if evaluation is None else evaluation.public(task.reference)
            given = ReflectionInput(task.public(), output, prior, public, attempt)
            reflection, refused = await _reflection(strategy, given, session)
            if refused:
                await _warn(session, _REFUSED, refused)
            return await self._stored(store, task, reflection, session)
        except Exception as error:  # noqa: BLE001 - the task was accepted, and stays so
            await _warn(session, "a task could not be reflected on", error)
            return None

    async def _history(self, store: VersionedReflectionStore, identity: str) -> NoteHistory:
        return await _asked(lambda: store.history(identity)) or NoteHistory(identity)

    async def _stored(
        self, store: VersionedReflectionStore, task: Task, reflection: TaskReflection, session: Session
    ) -> TaskReflection | None:
        """Store a reflection; return what is in force if it is this one."""
        description, failure = description_of(task), reflection.failure
        if failure:
            await _warn(session, "there is no new reflection on a task", failure)
        commit = functools.partial(store.commit, task_identity(task), reflection, description=description)
        stored = (await _asked(commit)).reflection
        if not reflection.complete:
            kept = not isinstance(store, PlainStore) and stored is not None and not stored.complete
            return stored if kept else None
        if stored is None or stored.texts != reflection.texts:
            await _warn(session, "a reflection was counted and not taken", _NOT_TAKEN)
            return None
        event = TaskReflectedEvent(
            run_id=session.id,
            attempt=session.attempt,
            task_description=description,
            reflection=stored,
            is_first_reflection=stored.run_count == 1,
        )
        await session.emit(event)
        return stored


async def _warn(session: Session, what: str, error: BaseException | str) -> None:
    """Log and tell a problem that fails nothing."""
    said = described(error) if isinstance(error, BaseException) else error
    problem = redact(f"{what}: {said}")
    logger.warning(problem)
    await session.emit(Warned(run_id=session.id, attempt=session.attempt, message=problem))


async def _asked(call: Callable[[], Awaitable[T]]) -> T:
    """Make a call of the store in time; it is charged to nobody."""
    return await _within(STORE_SECONDS, Session(), call)


async def _within(seconds: float, session: Session, call: Callable[[], Awaitable[T]]) -> T:
    """Make a call of a session in time, which makes an error of a cancellation that nobody asked for."""
    with anyio.move_on_after(seconds):
        return await session.spending("reflector", call)
    raise TimeoutError(f"no answer within {seconds:g} s")


async def _reflection(
    strategy: ReflectionStrategy, given: ReflectionInput, session: Session
) -> tuple[TaskReflection, str]:
    """Return the reflection as it may be stored, and what of it was refused."""

    async def reflect() -> TaskReflection:
        found = await run_callable(strategy.reflect, functools.partial(strategy.reflect, given))
        if not isinstance(found, TaskReflection):
            raise TypeError(f"the strategy returned {type(found).__name__}, no TaskReflection")
        return found

    try:
        found = await _within(REFLECTION_SECONDS, session, reflect)
    except Exception as error:  # noqa: BLE001 - told by the record, and by a warning
        logger.warning("a reflection strategy failed: %s", redact(described(error)))
        return failed_reflection(given, described(error)), ""
    reflection, refused = await run_sync(admit, found)
    if reflection is None:
        return failed_reflection(given, f"{_REFUSED}, and that was all: {refused}"), ""
    return reflection, refused


# -- in a prompt

NOTES_TOKENS: Final = 1000
"""How long notes may be in a prompt, unless said otherwise."""

_HEAD: Final = """\
## Task Improvement Notes (from prior executions)

The following refinements were found by looking back at earlier runs of this task. Use them to do better, and fulfil the
original task below in any case: where the two differ, the original counts."""
_END: Final = "---"
# What would pass for a part of our own prompt: a rule, and a heading or a fence, which is one behind quotes and bullets
# all the same. Possessive: no text makes it slow.
_POSING: Final = re.compile(
    r"[ \t>]*+(?=[-=_*][-=_*> \t]*$)"
    r"|(?:[\s>]|[-+*](?=\s)|\d{1,9}[.)](?=\s))*+(?=[#\uff03\ufe5f]|```|~~~)"
)


def admit(reflection: TaskReflection | None) -> tuple[TaskReflection | None, str]:
    """Let a reflection through the gate.

    Returns it without the texts that give orders to their reader (None if it had nothing else), and what was left out
    and why, in words. Characters that hide or disguise are cleaned away, and secrets. A failed reflection is only
    made storable: it is shown to nobody.
    """
    if reflection is None or not reflection.complete:
        return (None if reflection is None else storable(reflection)), ""
    refused: list[str] = []

    def change(field: str, text: str, most: int) -> str:
        text = text[: most + MARGIN]
        # As it came, and as it reads where an order is broken into lines.
        for reading in dict.fromkeys((text, " ".join(text.split()))):
            if (finding := screen(reading)) is not None:
                refused.append(f"{field} ({finding.kind}: it {finding.why})")
                return ""
        return storable_text(clean_characters(text), most)

    clean = changed_texts(reflection, change)
    texts = clean.texts
    if (finding := screen(" ".join(" ".join(texts).split()))) is not None:  # an order in several pieces
        refused.append(f"all of it ({finding.kind}: it {finding.why})")
        texts = ()
    return None if refused and not any(texts) else clean, "; ".join(refused)


def prompt_with(
    task: Task,
    reflection: TaskReflection | None,
    *,
    context: Sequence[tuple[str, str]] = (),
    max_tokens: int = NOTES_TOKENS,
    inputs: Mapping[str, str] | None = None,
) -> str:
    """Return a prompt with the notes, then what came before, then the original.

    ``context`` holds descriptions and outputs of tasks before this one; ``inputs`` fills placeholders of the notes.
    """
    notes = "" if reflection is None else notes_section(reflection, max_tokens=max_tokens, inputs=inputs)
    parts = [notes] if notes else []
    if context:
        outputs = "\n\n".join(f"### {one_line(name)}\n{as_data(output)}" for name, output in context)
        parts.append(f"## Context from Previous Tasks\n\n{outputs}")
    parts.append(f"## Task\n\n{task.prompt}")
    if task.expected_output:
        parts.append(f"## Expected Output\n\n{task.expected_output}")
    return "\n\n".join(parts)


def notes_section(
    reflection: TaskReflection,
    *,
    max_tokens: int = NOTES_TOKENS,
    inputs: Mapping[str, str] | None = None,
) -> str:
    """Return the notes as a section of at most ``max_tokens`` tokens; empty if there is nothing to say or no room.

    What gives orders to its reader is left out, as of lessons. Stored text can't close the section or open another
    one: what would pass for a heading, a rule, a fence or a tag is escaped. Where room is short, the last suggestions
    go first, then the last observations; then the middle of the instructions.
    """
    clean, _ = admit(reflection)
    if clean is None or not clean.complete:
        return ""
    texts = [
        fill(text, inputs).strip() for text in (clean.refined_description, clean.refined_expected_output)
    ]
    observations, suggestions = [*clean.observations], [*clean.suggestions]
    shown, room = texts, max_tokens
    section = _section(shown, observations, suggestions)
    while section and estimate_tokens(section) > max_tokens:
        if observations or suggestions:
            (suggestions or observations).pop()
        else:
            room = room * 9 // 10
            shown = [cut_middle(text, room) if room else "" for text in texts]
        section = _section(shown, observations, suggestions)
    return section


def _section(instructions: Sequence[str], observations: Sequence[str], suggestions: Sequence[str]) -> str:
    description, expected = map(as_data, instructions)
    sections = {
        "Refined Instructions": description,
        "Output Guidance": expected,
        "Observations": _listed(observations),
        "Suggestions": _listed(suggestions),
    }
    said = [f"### {name}\n{body}" for name, body in sections.items() if body.strip()]
    return "\n\n".join([_HEAD, *said, _END]) if said else ""


def as_data(text: str) -> str:
    """Return stored text line by line, so that none of it passes for a part of our own prompt; else as it is."""
    return "\n".join(_escaped(line) for line in text.splitlines())


def _escaped(line: str) -> str:
    if not (line.isascii() and line.isprintable()):
        line = "".join(c for c in line if c == "\t" or unicodedata.category(c) not in {"Cf", "Cc", "Cs"})
    line = inert(line, tags=True)
    match = _POSING.match(line)
    return line if match is None else f"{line[: match.end()]}\\{line[match.end() :]}"


def _listed(texts: Sequence[str]) -> str:
    return "\n".join(f"- {_escaped(one_line(text))}" for text in texts if text.strip())
