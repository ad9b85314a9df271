"""A small experiment as a process of its own, to be killed: rooms with a treasure behind one of some doors.

``python resuming.py FOLDER STORE [--pause N] [--die-unsaid N] [--resume] [--workers N] [--model]``: after ``--pause``
tries it hangs in the middle of one, so that the test kills it there; ``--die-unsaid`` kills it right after its n-th
lesson was stored. ``FOLDER/agent.log`` has a line for every attempt that began.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
from pathlib import Path

import anyio

from jeeves_reflexion import (
    Attempt,
    Completion,
    LessonSettings,
    Message,
    Reflection,
    Reflexion,
    RewardEvaluator,
    Step,
    Task,
    Usage,
)
from jeeves_reflexion.experiments import (
    PlainProgress,
    Plan,
    RunLog,
    arm_lessons,
    batch,
    figures,
    run_experiment,
)
from jeeves_reflexion.models.ask import ask
from vectorstores import FaissVectorStore, HashingEmbedder, InMemoryVectorStore

DOORS = ("red", "green", "blue", "white", "black", "brown")
ROOMS = ("cellar", "attic", "garage", "kitchen", "stable", "library", "chapel", "tower")
TASKS = [
    Task(f"find the treasure behind a door of the {room}", id=room, kind="even" if i % 2 else "odd")
    for i, room in enumerate(ROOMS)
]
ARMS = ("last-attempt", "reflexion", "monotonic", "selective@2")


def number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def behind(task: Task) -> str:
    return DOORS[number(task.id) % len(DOORS)]


class Seeker:
    """Opens the door that a lesson of its room names, else one by chance; asks its model first where it has one."""

    def __init__(self, arm, seed, journal, pause, model):
        self.arm, self.seed, self.journal, self.pause, self.model = arm, seed, journal, pause, model

    async def __call__(self, task, session):
        with self.journal.open("a") as file:
            file.write(f"{self.arm} {self.seed} {session.id} {session.attempt}\n")
        if self.model is not None:
            await ask(self.model, [Message("user", task.prompt + session.blocks["reflexion_lessons"])])
        if self.pause and len(self.journal.read_text().splitlines()) > self.pause:
            print("PAUSED", flush=True)
            await anyio.sleep(600)
        door = DOORS[number(f"{self.seed}:{task.id}:{session.attempt}") % len(DOORS)]
        seen = session.blocks["reflexion_lessons"]
        if f"open {door}" in seen:
            door = DOORS[(DOORS.index(door) + 1) % len(DOORS)]
        for line in seen.splitlines():
            if f"the {task.id}," in line:
                door = line.rsplit(" ", 2)[-2]
        won = door == behind(task)
        return Attempt(door, (Step("", f"open {door}", "gold" if won else "dust"),), metadata={"won": won})


class Paid:
    """A model that writes down each call that it is paid for."""

    name, supports_tools = "paid", False

    def __init__(self, bill):
        self.bill = bill

    async def complete(self, messages, *, tools=(), schema=None, sampling=None):
        with self.bill.open("a") as file:
            file.write(json.dumps(messages[-1].content) + "\n")
        return Completion("yes", usage=Usage(1, 100, 10, 0.01))


def teach(task, trials):
    return Reflection(f"In the {task.id}, open the {behind(task)} door.")


def die_before_it_is_said(count: int) -> None:
    """Have the process killed when its n-th lesson is in the store, and the journal does not say so yet."""
    real, left = batch.stored_line, [count]

    def stored_line(*arguments):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments)

    batch.stored_line = stored_line


async def play(folder: Path, options) -> dict:
    log = RunLog(folder / "run")
    embedder = HashingEmbedder()
    if options.store == "faiss":
        store = FaissVectorStore(folder / "lessons", embedder=embedder, namespace="test")
    else:
        store = InMemoryVectorStore(embedder, namespace="test")
    plan = Plan(
        ARMS,
        3,
        (0,),
        options.workers,
        3,
        holdout=0.3,
        max_cost_usd=options.max_cost if options.model else None,
    )
    async with store:
        await log.open({"store": options.store}, resume=options.resume)
        model = await log.recorded(Paid(folder / "bill.log")) if options.model else None

        def make(arm, seed):
            settings = LessonSettings(min_similarity=-1.0)
            return Reflexion(
                Seeker(arm, seed, folder / "agent.log", options.pause, model),
                evaluator=RewardEvaluator("won"),
                reflector=teach,
                lesson_store=arm_lessons(
                    arm, store.scoped(f"{arm}-{seed}"), TASKS, settings=settings, seed=seed
                ),
                max_attempts=3,
                top_k_lessons=3,
            )

        results = await run_experiment(plan, TASKS, make, log=log, watcher=PlainProgress(sys.stderr))
    return figures(results)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("store")
    parser.add_argument("--pause", type=int, default=0)
    parser.add_argument("--die-unsaid", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--max-cost", type=float)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--model", action="store_true")
    options = parser.parse_args()
    if options.die_unsaid:
        die_before_it_is_said(options.die_unsaid)
    options.folder.mkdir(parents=True, exist_ok=True)
    print(json.dumps(anyio.run(play, options.folder, options)))


if __name__ == "__main__":
    main()
