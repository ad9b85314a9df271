"""The step after acceptance: writes better notes on a task, and puts them before its prompt in the next run.

Nothing here fails a task: an error in a store, a strategy or a model only causes a warning, in the log and as an event.
Notes pass the same checks as lessons, and are data in a prompt.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
_REFUSED: Final = "text that gives orders was left out of the notes on a task"
_NOT_TAKEN: Final = "its text was rolled back before, or another reflection was stored first"


@dataclass(frozen=True, slots=True)
class Notes:
    """A task's notes for one run; ``version`` is 0 without notes, and None if they could not be read."""

    identity: str
    reflection: TaskReflection | None = None
    version: int | None = None


class TaskReflector:
    """Reads and writes the notes of tasks in one store; with ``store=None`` it does nothing.

    Serves many runs at once. A store with only the two methods of :class:`ReflectionStore` gets no scores, and keeps
    the last of two reflections at once. A call of the store may take 30 s, a call of the strategy 300 s.
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
        """Return the task's notes for a run; empty, with a warning, if the store fails."""
        identity, store = task_identity(task), self._notes
        if store is None:
            return Notes(identity)
        try:
            history = await _within(STORE_SECONDS, partial(store.history, identity)) or NoteHistory(identity)
            reflection, refused = await run_sync(admit, history.reflection)
        except Exception as error:  # noqa: BLE001 - a run without notes is better than no run
            await _warn(session, "the notes of a task could not be read", error)
            return Notes(identity)
        if refused:
            await _warn(session, _REFUSED, refused)
        version = 0
        if reflection is not None and reflection.complete:
            version = history.current
            await session.tell(NotesApplied, identity=identity, version=version)
        return Notes(identity, reflection, version)

    async def score(self, notes: Notes, score: float, session: Session) -> None:
        """Store the score of a run with these notes."""
        store, version = self._notes, notes.version
        if store is None or version is None:
            return
        try:
            await _within(STORE_SECONDS, partial(store.score, notes.identity, version, score))
        except Exception as error:  # noqa: BLE001 - the run was scored, with or without a note of it
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

        ``config=None`` does nothing. A :class:`TaskReflectedEvent` announces a stored reflection. A failed reflection
        is stored, without an event, if the store keeps versions and has no current one.
        """
        session, store = session or Session(), self._notes
        if config is None or store is None:
            return None
        try:
            strategy = strategy_of(config, model)
            history = await _within(STORE_SECONDS, partial(store.history, task_identity(task)))
            prior, _ = await run_sync(admit, None if history is None else history.reflection)
            public = None if evaluation is None else evaluation.public(task.reference)
            given = ReflectionInput(task.public(), output, prior, public, attempt)
            reflection, refused = await _reflection(strategy, given, session)
            if refused:
                await _warn(session, _REFUSED, refused)
            return await self._stored(store, task, reflection, session)
        except Exception as error:  # noqa: BLE001 - the task was accepted, and stays so
            await _warn(session, "a task could not be reflected on", error)
            return None

    async def _stored(
        self, store: VersionedReflectionStore, task: Task, reflection: TaskReflection, session: Session
    ) -> TaskReflection | None:
        """Store a reflection; return it as stored if it is the current one afterwards."""
        description, failure = description_of(task), reflection.failure
        if failure:
            await _warn(session, "there is no new reflection on a task", failure)
        commit = partial(store.commit, task_identity(task), reflection, description=description)
        stored = (await _within(STORE_SECONDS, commit)).reflection
        if not reflection.complete:
            return None if stored is None or stored.complete else stored
        if stored is None or stored.texts != reflection.texts:
            await _warn(session, "a reflection was counted but not used", _NOT_TAKEN)
            return None
        await session.tell(
            TaskReflectedEvent,
            task_description=description,
            reflection=stored,
            is_first_reflection=stored.run_count == 1,
        )
        return stored


async def _warn(session: Session, what: str, error: BaseException | str) -> None:
    """Log a problem that fails nothing, and emit an event."""
    why = described(error) if isinstance(error, BaseException) else error
    problem = redact(f"{what}: {why}")
    logger.warning(problem)
    await session.tell(Warned, message=problem)


async def _within(seconds: float, call: Callable[[], Awaitable[T]], session: Session | None = None) -> T:
    """Make a call within a time limit, charged to the run of ``session``; without one, to no run.

    A cancellation that nobody outside asked for becomes an error too.
    """
    with anyio.move_on_after(seconds):
        return await (session or Session()).spending("reflector", call)
    raise TimeoutError(f"no answer within {seconds:g} s")


async def _reflection(
    strategy: ReflectionStrategy, given: ReflectionInput, session: Session
) -> tuple[TaskReflection, str]:
    """Return a reflection that is safe to store, and which of its texts were refused."""

    async def reflect() -> TaskReflection:
        answer = await run_callable(strategy.reflect, partial(strategy.reflect, given))
        if not isinstance(answer, TaskReflection):
            raise TypeError(f"the strategy returned {type(answer).__name__}, not a TaskReflection")
        return answer

    try:
        answer = await _within(REFLECTION_SECONDS, reflect, session)
    except Exception as error:  # noqa: BLE001 - the failed reflection and a warning report it
        logger.warning("a reflection strategy failed: %s", redact(described(error)))
        return failed_reflection(given, described(error)), ""
    reflection, refused = await run_sync(admit, answer)
    if reflection is None:
        return failed_reflection(given, f"{_REFUSED}, and nothing else remained: {refused}"), ""
    return reflection, refused


# -- in a prompt

NOTES_TOKENS: Final = 1000
"""The default length of notes in a prompt."""

_HEAD: Final = """\
## Task Improvement Notes (from prior executions)

The following refinements were found by looking back at earlier runs of this task. Use them to do better, and fulfil the
original task below in any case: where the two differ, the original counts."""
_END: Final = "---"
# What could pass for a part of our own prompt: a rule, a heading or a fence, also behind quotes and bullets.
# Possessive, so that no text makes it slow.
_POSING: Final = re.compile(
    r"[ \t>]*+(?=[-=_*][-=_*> \t]*$)"
    r"|(?:[\s>]|[-+*](?=\s)|\d{1,9}[.)](?=\s))*+(?=[#\uff03\ufe5f]|```|~~~)"
)


def admit(reflection: TaskReflection | None) -> tuple[TaskReflection | None, str]:
    """Return a reflection without texts that give orders to their reader, and which were left out and why.

    The reflection is None if nothing else remains. Secrets and characters that hide or disguise text are removed. A
    failed reflection is only made storable, since nobody is shown it.
    """
    if reflection is None or not reflection.complete:
        return (None if reflection is None else storable(reflection)), ""
    refused: list[str] = []

    def change(field: str, text: str, most: int) -> str:
        text = text[: most + MARGIN]
        # As given, and on one line, for an order may be broken into lines.
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
    """Return a prompt of the notes, the context, and the original task.

    ``context`` has descriptions and outputs of earlier tasks; ``inputs`` fills placeholders in the notes.
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
    """Return the notes as a section of at most ``max_tokens`` tokens; empty if there are none or no room.

    Texts that give orders to their reader are left out, as with lessons. Stored text can't close the section or open
    another one: headings, rules, fences and tags in it are escaped. To fit, the last suggestions are dropped first,
    then the last observations; then the instructions are cut in the middle.
    """
    clean, _ = admit(reflection)
    if clean is None or not clean.complete:
        return ""
    texts = [
        fill(text, inputs).strip() for text in (clean.refined_description, clean.refined_expected_output)
    ]
    observations, suggestions = (
        [f"- {as_data(one_line(text))}" for text in texts if text.strip()]
        for texts in (clean.observations, clean.suggestions)
    )
    shown, room = texts, max_tokens
    while True:
        sections = {
            "Refined Instructions": as_data(shown[0]),
            "Output Guidance": as_data(shown[1]),
            "Observations": "\n".join(observations),
            "Suggestions": "\n".join(suggestions),
        }
        parts = [f"### {name}\n{body}" for name, body in sections.items() if body.strip()]
        section = "\n\n".join([_HEAD, *parts, _END]) if parts else ""
        if not section or estimate_tokens(section) <= max_tokens:
            return section
        if observations or suggestions:
            (suggestions or observations).pop()
        else:
            room = room * 9 // 10
            shown = [cut_middle(text, room) if room else "" for text in texts]


def as_data(text: str) -> str:
    """Return stored text with every line escaped that could pass for a part of our own prompt."""
    lines = []
    for line in text.splitlines():
        shown = line
        if not (line.isascii() and line.isprintable()):
            shown = "".join(c for c in line if c == "\t" or unicodedata.category(c) not in {"Cf", "Cc", "Cs"})
        shown = inert(shown, tags=True)
        match = _POSING.match(shown)
        lines.append(shown if match is None else f"{shown[: match.end()]}\\{shown[match.end() :]}")
    return "\n".join(lines)
