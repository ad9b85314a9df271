"""What had to be worked around in the peer, each shown by running it; imported in the peer's interpreter only.

A probe returns what was ``seen``, in words, and whether the limitation ``holds`` in the version that is installed.
"""
# ruff: noqa: ANN401 - the peer's own types are not here

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import anyio
import jeevesagent
from jeevesagent.architecture.helpers import parse_score
from jeevesagent.loader.base import Chunk
from jeevesagent.vectorstore.faiss import FAISSVectorStore

Probe: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]

NOTHING: tuple[Any, ...] = ()
"""The events of a base that has none to tell; yielding them makes it a generator."""

OPENING = (
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 3, a cabinet 2, a cabinet 1, "
    "a coffeemachine 1, a countertop 2, a countertop 1, a drawer 3, a drawer 2, a drawer 1, a fridge 1, a microwave 1, "
    "a sinkbasin 1 and a stoveburner 1.\n\nYour task is to: put a hot tomato in the sinkbasin."
)
SCORES = ("Score: 8/10", "score: -0.5", "No idea. 1 of the 3 links is dead.", "I can't judge this.")


class Scripted:
    """A model that uses the tool ``act`` so many times per attempt, and says the same verdict and lesson each time."""

    name = "scripted"

    def __init__(self, *, turns: int = 0, verdict: str = "score: 0.0", lesson: str = "Look twice.") -> None:
        self._turns, self._verdict, self._lesson = turns, verdict, lesson
        self._left = 0
        self.seeds: list[str] = []
        self.judged: list[str] = []

    async def complete(self, messages: list[Any], **_: Any) -> tuple[str, list[Any], Any, str]:
        """Call the tool until its turns are used up, then answer."""
        usage = jeevesagent.Usage()
        if messages[-1].role == jeevesagent.Role.USER:
            self._left = self._turns
            self.seeds.append("\n".join(message.content for message in messages))
        if self._left > 0:
            self._left -= 1
            call = jeevesagent.ToolCall(id=f"call-{self._left}", tool="act", args={})
            return "", [call], usage, "tool_calls"
        return "an answer", [], usage, "stop"

    async def stream(self, messages: list[Any], **_: Any) -> AsyncIterator[Any]:
        """Give the verdict or the lesson."""
        asked = messages[-1].content
        reflecting = "Produce one sentence" in asked
        if not reflecting:
            self.judged.append(asked)
        text = self._lesson if reflecting else self._verdict
        yield jeevesagent.ModelChunk(kind="text", text=text)
        yield jeevesagent.ModelChunk(kind="finish", finish_reason="stop", usage=jeevesagent.Usage())


class Letters:
    """An embedder by letters, so that equal texts are near; keeps what it embedded."""

    name = "letters"
    dimensions = 26

    def __init__(self) -> None:
        self.batches: list[str] = []

    async def embed(self, text: str) -> list[float]:
        """Return how often each letter comes."""
        return [float(text.lower().count(chr(97 + place))) + 0.01 for place in range(26)]

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts that are stored."""
        self.batches += texts
        return [await self.embed(text) for text in texts]


async def act() -> str:
    """Act once."""
    return "the observation"


def agent(model: Scripted, *, base: Any = None, **options: Any) -> Any:
    """Return an agent with the peer's Reflexion."""
    loop = jeevesagent.Reflexion(base=base or jeevesagent.ReAct(), **options)
    return jeevesagent.Agent("Play.", model=model, tools=[act], architecture=loop)


async def events(agent_: Any, prompt: str, **options: Any) -> list[dict[str, Any]]:
    """Run it, and return what its Reflexion reported."""
    return [event.payload async for event in agent_.stream(prompt, **options)]


def _count(payloads: list[dict[str, Any]], name: str) -> int:
    return sum(payload.get("name") == f"reflexion.{name}" for payload in payloads)


class _Streamed(Scripted):
    """The same where the peer reads the stream also for turns, as it does while events are listened to."""

    async def stream(self, messages: list[Any], **options: Any) -> AsyncIterator[Any]:
        if options.get("tools") is None:
            async for chunk in super().stream(messages):
                yield chunk
            return
        text, calls, usage, _ = await self.complete(messages)
        for call in calls:
            yield jeevesagent.ModelChunk(kind="tool_call", tool_call=call)
        yield jeevesagent.ModelChunk(kind="text", text=text)
        yield jeevesagent.ModelChunk(kind="finish", finish_reason="stop", usage=usage)


async def turns() -> dict[str, Any]:
    """The limit of turns is of the whole run, judge and reflector included."""
    model = _Streamed(turns=16)
    said = await events(agent(model, max_attempts=5), "Try.")
    begun, lessons = _count(said, "attempt_started"), _count(said, "lesson_persisted")
    return {
        "seen": f"5 attempts of 17 turns with the default `max_turns=50`: {begun} begun, {lessons} lessons",
        "holds": begun < 5,
    }


async def interrupted() -> dict[str, Any]:
    """An attempt that runs out of turns is neither judged nor learned from, and is the last."""
    model = _Streamed(turns=30)
    said = await events(agent(model, base=jeevesagent.ReAct(max_turns=16), max_attempts=5), "Try.")
    begun, judged = _count(said, "attempt_started"), _count(said, "evaluated")
    lessons = _count(said, "lesson_persisted")
    return {
        "seen": f"`ReAct(max_turns=16)`, attempts of 30 turns: {begun} of 5 made, {judged} judged, {lessons} lessons",
        "holds": (begun, judged, lessons) == (1, 0, 0),
    }


async def last() -> dict[str, Any]:
    """The last attempt leaves no lesson, so one attempt at a time never learns."""
    counts = []
    for attempts in (1, 3):
        said = await events(agent(_Streamed(), max_attempts=attempts), "Try.")
        counts.append(_count(said, "lesson_persisted"))
    return {
        "seen": f"lessons of a run that fails: {counts[0]} after 1 attempt, {counts[1]} after 3",
        "holds": counts == [0, 2],
    }


async def scores() -> dict[str, Any]:
    """A score is read out of text; what can't be read is 0, what is read wrongly passes."""
    read = {text: parse_score(text) for text in SCORES}
    return {
        "seen": "; ".join(f'"{text}" is {score:g}' for text, score in read.items()),
        "holds": list(read.values()) == [1.0, 0.5, 1.0, 0.0],
    }


async def text_only() -> dict[str, Any]:
    """Judge and reflector see the last answer, not what was done."""
    model = _Streamed(turns=2)
    await events(agent(model, max_attempts=1), "Try.")
    shown = "the observation" in model.judged[0]
    return {
        "seen": f"the judge's prompt after calls of a tool: {'with' if shown else 'without'} what the tool answered",
        "holds": not shown,
    }


async def glued() -> dict[str, Any]:
    """Lessons of the block run into each other."""
    asked = agent(_Streamed(), max_attempts=3)
    await events(asked, "Try.")
    block = (await asked.memory.working())[0].content
    return {"seen": f"two lessons in the block: `{block!r}`", "holds": "\n" not in block}


async def users() -> dict[str, Any]:
    """A run for a user never sees its lessons."""
    seen = {}
    for user in (None, "anna"):
        model = _Streamed(lesson="Look under the sink.")
        await events(agent(model, max_attempts=2), "Try.", user_id=user)
        seen[user] = "Look under the sink." in model.seeds[1]
    return {
        "seen": f"lesson shown to the second attempt: {_yes(seen[None])} without a user, {_yes(seen['anna'])} with "
        "`user_id='anna'`",
        "holds": seen == {None: True, "anna": False},
    }


async def key() -> dict[str, Any]:
    """The lesson itself is embedded; of the task 200 characters are kept."""
    embedder = Letters()
    store = jeevesagent.InMemoryVectorStore(embedder)
    await events(agent(_Streamed(), max_attempts=2, lesson_store=store), OPENING)
    hits = await store.search(OPENING, k=1)
    excerpt = hits[0].chunk.metadata["prompt_excerpt"]
    told = "Your task is to" in excerpt
    return {
        "seen": f"embedded: `{embedder.batches[0]}`; kept of an opening of {len(OPENING)} characters: {len(excerpt)}, "
        f"{'with' if told else 'without'} its task",
        "holds": embedder.batches == ["Look twice."] and not told,
    }


async def hashed() -> dict[str, Any]:
    """The store of its own example finds lessons at random."""
    store = jeevesagent.InMemoryVectorStore(jeevesagent.HashEmbedder())
    things = [f"{thing} {place}" for thing in ("tomato", "mug", "knife", "plate") for place in "abcde"]
    await store.add(
        [Chunk(content=f"To find the {thing}, open cabinet {n}.") for n, thing in enumerate(things)]
    )
    found = 0
    for thing in things:
        hits = await store.search(f"Your task is to: find the {thing}.", k=1)
        found += thing in hits[0].chunk.content
    return {
        "seen": f"`InMemoryVectorStore(embedder=HashEmbedder())`: the lesson that names the thing is nearest for "
        f"{found} of {len(things)} tasks",
        "holds": found <= len(things) // 4,
    }


async def floor() -> dict[str, Any]:
    """Whatever is stored is recalled, however far."""
    store = jeevesagent.InMemoryVectorStore(jeevesagent.HashEmbedder())
    await store.add([Chunk(content="Round prices to cents.")])
    said = await events(agent(_Streamed(), max_attempts=1, lesson_store=store), OPENING)
    return {
        "seen": f"a lesson on prices, asked for a hot tomato: {_count(said, 'lessons_recalled')} recalled",
        "holds": _count(said, "lessons_recalled") == 1,
    }


async def stale() -> dict[str, Any]:
    """A block outlives its lessons."""
    store = jeevesagent.InMemoryVectorStore(Letters())
    ids = await store.add([Chunk(content="Always answer 42.")])
    model = _Streamed(verdict="score: 1.0")
    asked = agent(model, max_attempts=1, lesson_store=store)
    await events(asked, "Try.")
    await store.delete(ids)
    await events(asked, "Try something else.")
    shown = "Always answer 42." in model.seeds[1]
    return {"seen": f"a deleted lesson, shown to the next run: {_yes(shown)}", "holds": shown}


async def parallel() -> dict[str, Any]:
    """Runs of one agent at a time take each other's lessons."""
    store = jeevesagent.InMemoryVectorStore(Letters())
    await store.add([Chunk(content="aaaaaaaa"), Chunk(content="zzzzzzzz")])
    model = _Streamed(verdict="score: 1.0")
    asked = agent(model, max_attempts=1, lesson_store=store, top_k_lessons=1)
    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(events, asked, "aaaa aaaa")
            group.start_soon(events, asked, "zzzz zzzz")
    wrong = sum(("- a" in seed) != ("aaaa aaaa" in seed.rpartition("\n")[2]) for seed in model.seeds)
    return {
        "seen": f"20 runs of one agent at a time: {wrong} were shown another's lessons",
        "holds": wrong > 0,
    }


class _Raising:
    name = "raising"

    def declared_workers(self) -> dict[str, Any]:
        return {}

    async def run(self, session: Any, deps: Any, prompt: str) -> AsyncIterator[Any]:
        for event in NOTHING:
            yield event
        raise RuntimeError("the engine hung")


async def errors() -> dict[str, Any]:
    """A base that raises ends the run, with nothing learned."""
    asked = agent(_Streamed(), base=_Raising(), max_attempts=5)
    try:
        await asked.run("Try.")
    except RuntimeError as error:
        return {"seen": f"the first of 5 attempts raises: the run raises `{error}`", "holds": True}
    return {"seen": "the run goes on", "holds": False}


async def copies() -> dict[str, Any]:
    """The same lesson is stored again and again, and takes the places of others."""
    store = jeevesagent.InMemoryVectorStore(Letters())
    await events(agent(_Streamed(), max_attempts=5, lesson_store=store), "Try.")
    hits = await store.search("Try.", k=3)
    different = len({hit.chunk.content for hit in hits})
    return {
        "seen": f"one lesson learned 4 times: {await store.count()} rows; recalled with k=3: {different} different",
        "holds": different < len(hits),
    }


async def durable() -> dict[str, Any]:
    """Its stores without a server keep nothing."""
    savers = {
        kind.__name__: hasattr(kind, "save") for kind in (FAISSVectorStore, jeevesagent.InMemoryVectorStore)
    }
    return {
        "seen": "; ".join(f"`{name}` has {'a' if has else 'no'} `save`" for name, has in savers.items())
        + "; Reflexion calls none",
        "holds": not savers["FAISSVectorStore"],
    }


class _Looking:
    name = "looking"

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def declared_workers(self) -> dict[str, Any]:
        return {}

    async def run(self, session: Any, deps: Any, prompt: str) -> AsyncIterator[Any]:
        self.seen.append((dict(session.metadata), session.id, prompt))
        for event in NOTHING:
            yield event


async def untold() -> dict[str, Any]:
    """A base is not told which attempt it is, and nothing is reset between attempts."""
    base = _Looking()
    await agent(_Streamed(), base=base, max_attempts=2).run("Try.")
    same = base.seen[0] == base.seen[1]
    return {
        "seen": f"metadata, session and prompt of attempts 1 and 2: {'the same' if same else 'different'}",
        "holds": same,
    }


def _yes(value: bool) -> str:  # noqa: FBT001 - a word for it
    return "yes" if value else "no"


PROBES: dict[str, Probe] = {
    probe.__name__: probe
    for probe in (
        turns, interrupted, last, scores, text_only, untold, errors, glued, users, key, hashed, floor, copies, stale,
        parallel, durable,
    )
}  # fmt: skip
