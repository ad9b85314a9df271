"""Our side, in a process of its own: ``python -m benchmarks.peers.ours``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.peers.link import Link, main, memory
from jeeves_reflexion import (
    Attempt,
    LessonSettings,
    LoopOptions,
    Reflection,
    Reflexion,
    RewardEvaluator,
    Session,
    Step,
    Task,
    Trial,
    VectorLessonStore,
    __version__,
)
from jeeves_reflexion.experiments import arm_lessons
from jeeves_reflexion.protocols import LessonStore
from vectorstores import FaissVectorStore, InMemoryVectorStore, Store

if TYPE_CHECKING:
    from vectorstores.base import FloatArray

WON = "won"
NAMESPACE = "peers"


class AskedEmbedder:
    """Vectors of the referee, which are the same for all."""

    def __init__(self, link: Link, name: str, dim: int) -> None:
        self._link = link
        self.id = name
        self.dim = dim

    async def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return the texts' vectors."""
        return np.asarray(self._link.ask("embed", texts=list(texts))["vectors"], dtype=np.float32)


class Ours:
    """One arm: a loop with an empty lesson store, used as any user would."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._rooms = AsyncExitStack()
        self._store: Store | None = None
        self._loop: Reflexion | None = None

    async def start(self, said: dict[str, Any]) -> dict[str, Any]:
        """Make the loop of an arm."""
        self._loop = Reflexion(
            self._play,
            evaluator=RewardEvaluator(WON),
            reflector=self._reflect,
            lesson_store=await self._lessons(said),
            max_attempts=said["trials"],
            top_k_lessons=said["k"],
            options=LoopOptions(learn=said["memory"] != "none"),
        )
        return memory()

    async def _lessons(self, said: dict[str, Any]) -> LessonStore | None:
        if said["memory"] == "none":
            return None
        embedder = AskedEmbedder(self._link, said["embedder"], said["dim"])
        store: Store = InMemoryVectorStore(embedder, namespace=NAMESPACE)
        if said["store"] == "faiss":
            folder = Path(self._rooms.enter_context(TemporaryDirectory(prefix="peers-")))
            store = FaissVectorStore(folder, embedder=embedder, namespace=NAMESPACE)
        self._store = store
        await self._rooms.enter_async_context(store)
        return arm_lessons(said["memory"], store, [], settings=LessonSettings(), seed=0)

    async def run(self, said: dict[str, Any]) -> dict[str, Any]:
        """Let the loop try one game until it is won or the attempts are used up."""
        loop = self._loop
        if loop is None:
            raise RuntimeError("no arm has been started")
        task = Task(said["prompt"], id=said["task"], kind=said["kind"])
        believed: list[bool] = []

        async def work() -> None:
            result = await loop.run(task)
            believed.extend(trial.passed for trial in result.trials)

        return {**await self._link.timed(work), "believed": believed}

    async def close(self, said: dict[str, Any]) -> dict[str, Any]:
        """Say what is kept, and end the stores."""
        used = memory()
        kept = 0 if self._store is None else await VectorLessonStore(self._store).count()
        await self._rooms.aclose()
        return {"lessons": kept, **used}

    async def _play(self, task: Task, session: Session) -> Attempt:
        played = self._link.ask("play", block=session.blocks.get("reflexion_lessons", ""))
        steps = tuple(Step(*step) for step in played["steps"])
        attempt = Attempt(steps[-1].observation if steps else "", steps, metadata={WON: played[WON]})
        return attempt if played[WON] else replace(attempt, interrupted="max_turns")

    async def _reflect(self, task: Task, trials: Sequence[Trial]) -> Reflection:
        last = trials[-1]
        steps = [[step.thought, step.action, step.observation] for step in last.attempt.steps]
        lesson = str(self._link.ask("reflect", steps=steps, won=last.passed)["lesson"])
        return Reflection(lesson, outcome="success" if last.passed else "failed")


async def _serve(link: Link) -> None:
    side = Ours(link)
    link.tell({"done": {"version": __version__, **memory()}})
    await link.serve({"start": side.start, "run": side.run, "close": side.close})


if __name__ == "__main__":
    main(_serve)
