"""The peer's side, in a process of its own interpreter: ``PYTHON -m benchmarks.peers.theirs``.

Nothing of this project is imported here but modules of this folder that need the standard library alone. The peer is
used as its documentation says: an ``Agent`` whose ``architecture`` is its ``Reflexion``.
"""
# ruff: noqa: ANN401 - the peer's own types are not here

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from importlib.metadata import version
from itertools import count
from typing import Any

import jeevesagent
from jeevesagent.loader.base import Chunk
from jeevesagent.memory.inmemory import InMemoryMemory
from jeevesagent.vectorstore.faiss import FAISSVectorStore

from benchmarks.peers.link import Link, main, memory
from benchmarks.peers.probes import NOTHING, PROBES

BLOCK = "reflexion_lessons"
JUDGE, REFLECTOR = "You are the judge.", "You are the reflector."


class Played:
    """The referee's answers in the form in which the peer passes things on: as the text of an answer."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def attempt(self, block: str) -> dict[str, Any]:
        """Play once with these lessons."""
        return self._link.ask("play", block=block)

    def reply(self, messages: list[Any]) -> str:
        """Answer as judge or reflector: both find the attempt in the text that they are given."""
        line = next(part for part in messages[-1].content.splitlines() if part.startswith('{"steps"'))
        played = json.loads(line)
        if messages[0].content == JUDGE:
            return f"score: {float(played['won'])}"
        return str(self._link.ask("reflect", steps=played["steps"], won=played["won"])["lesson"])


class Player:
    """A base architecture that plays one attempt, with what the working memory says."""

    name = "player"

    def __init__(self, played: Played) -> None:
        self._played = played

    def declared_workers(self) -> dict[str, Any]:
        """There are none."""
        return {}

    async def run(self, session: Any, deps: Any, prompt: str) -> AsyncIterator[Any]:
        """Play. The output is the whole attempt, as this is all that judge and reflector get to see."""
        blocks = await deps.memory.working(user_id=deps.context.user_id)
        text = next((block.content for block in blocks if block.name == BLOCK), "")
        session.turns += 1
        session.output = json.dumps(self._played.attempt(text))
        for event in NOTHING:
            yield event


class Model:
    """The player as the peer's ``Model``: for its ReAct it calls the tool ``act`` step by step."""

    name = "referee"

    def __init__(self, played: Played) -> None:
        self._played = played
        self._steps: list[list[str]] = []
        self._text = ""
        self._numbers = count()
        self.observation = ""

    @property
    def unplayed(self) -> int:
        """Steps of the attempt that it was not asked for any more."""
        return len(self._steps)

    async def complete(self, messages: list[Any], **_: Any) -> tuple[str, list[Any], Any, str]:
        """Return the next call of the tool, or the attempt as text at its end."""
        usage = jeevesagent.Usage()
        if messages[-1].role == jeevesagent.Role.USER:
            self._begin(messages)
        if not self._steps:
            return self._text, [], usage, "stop"
        thought, action, self.observation = self._steps.pop(0)
        call = jeevesagent.ToolCall(id=f"call-{next(self._numbers)}", tool="act", args={"command": action})
        return thought, [call], usage, "tool_calls"

    async def stream(self, messages: list[Any], **_: Any) -> AsyncIterator[Any]:
        """Answer as judge or reflector."""
        yield jeevesagent.ModelChunk(kind="text", text=self._played.reply(messages))
        yield jeevesagent.ModelChunk(kind="finish", finish_reason="stop", usage=jeevesagent.Usage())

    def _begin(self, messages: list[Any]) -> None:
        system = "\n".join(message.content for message in messages if message.role == jeevesagent.Role.SYSTEM)
        found = re.search(f"<{BLOCK}>\n(.*)\n</{BLOCK}>", system, re.DOTALL)
        played = self._played.attempt(found[1] if found else "")
        self._steps, self._text = list(played["steps"]), json.dumps(played)


class AskedEmbedder:
    """Vectors of the referee, which are the same for all."""

    def __init__(self, link: Link, name: str, dim: int) -> None:
        self._link = link
        self.name = name
        self.dimensions = dim

    async def embed(self, text: str) -> list[float]:
        """Return one text's vector."""
        return (await self.embed_batch([text]))[0]

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        """Return the texts' vectors."""
        vectors: list[list[float]] = self._link.ask("embed", texts=texts)["vectors"]
        return vectors


class OneALine(InMemoryMemory):  # type: ignore[misc]
    """Mends the block: the peer appends bullets without a line break between them."""

    async def append_block(self, name: str, content: str, *, user_id: str | None = None) -> None:
        """Append with a line break."""
        await super().append_block(name, content + "\n", user_id=user_id)


class ByTask:
    """Mends the store: finds a lesson by the task that taught it, where the peer embeds the lesson itself.

    The peer hands the store 200 characters of the task at most, which end before an opening's task is told; the whole
    task is what it searched for last.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._task = ""

    async def search(self, query: str, *, k: int) -> list[Any]:
        """Search, and return the lessons in place of the tasks."""
        self._task = query
        hits = await self._store.search(query, k=k)
        return [replace(hit, chunk=_lesson_of(hit)) for hit in hits]

    async def add(self, chunks: list[Any]) -> list[str]:
        """Store the tasks, with the lessons as metadata."""
        told = [Chunk(content=self._task, metadata={**c.metadata, "lesson": c.content}) for c in chunks]
        return list(await self._store.add(told))

    async def count(self) -> int:
        """Return how many lessons there are."""
        return int(await self._store.count())


def _lesson_of(hit: Any) -> Any:
    return Chunk(content=hit.chunk.metadata["lesson"], metadata=hit.chunk.metadata)


class Theirs:
    """One arm of the peer."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._said: dict[str, Any] = {}
        self._store: Any = None
        self._agent: Any = None
        self._model: Model | None = None

    async def start(self, said: dict[str, Any]) -> dict[str, Any]:
        """Make the agent of an arm."""
        self._said = said
        self._store, self._agent = self._make_store(), None
        return memory()

    def _make_store(self) -> Any:
        said = self._said
        if said["store"] == "block":
            return None
        embedder = (
            jeevesagent.HashEmbedder()
            if said["embedder"] == "its own"
            else AskedEmbedder(self._link, said["embedder"], said["dim"])
        )
        if said["store"] == "faiss":
            return FAISSVectorStore(embedder)
        store = jeevesagent.InMemoryVectorStore(embedder)
        return ByTask(store) if said["memory"] == "by task" else store

    def _make_agent(self) -> Any:
        said, played = self._said, Played(self._link)
        model = self._model = Model(played)

        async def act(command: str) -> str:
            """Give one command to the game."""
            return model.observation

        react = said["base"] == "react"
        loop = jeevesagent.Reflexion(
            base=jeevesagent.ReAct() if react else Player(played),
            max_attempts=said["trials"],
            evaluator_prompt=JUDGE,
            reflector_prompt=REFLECTOR,
            lesson_store=self._store,
            top_k_lessons=said["k"],
        )
        extra = {} if said["max_turns"] is None else {"max_turns": said["max_turns"]}
        kept = OneALine() if said["memory"] == "own, a line each" else InMemoryMemory()
        return jeevesagent.Agent(
            "You play a game in text.",
            model=model,
            memory=kept,
            tools=[act] if react else None,
            architecture=loop,
            **extra,
        )

    async def run(self, said: dict[str, Any]) -> dict[str, Any]:
        """Let the agent try one game, with the attempts that its Reflexion makes in one run."""
        if self._agent is None or self._said["memory"].startswith("own"):
            # A block belongs to the agent's memory, and nothing else tells one task from another.
            self._agent = self._make_agent()
        agent, model = self._agent, self._model
        ended: list[str] = []

        async def work() -> None:
            result = await agent.run(said["prompt"])
            ended.append(result.interruption_reason or "")

        return {**await self._link.timed(work), "ended": ended[0], "unplayed": model.unplayed if model else 0}

    async def close(self, said: dict[str, Any]) -> dict[str, Any]:
        """Say what is kept."""
        return {"lessons": None if self._store is None else await self._store.count(), **memory()}

    async def probe(self, said: dict[str, Any]) -> dict[str, Any]:
        """Look at one of the things that had to be worked around."""
        return await PROBES[said["name"]]()


async def _serve(link: Link) -> None:
    side = Theirs(link)
    link.tell({"done": {"version": version("jeevesagent"), **memory()}})
    await link.serve({"start": side.start, "run": side.run, "close": side.close, "probe": side.probe})


if __name__ == "__main__":
    main(_serve)
