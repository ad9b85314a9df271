"""Games that need no engine, a player that wins with the lesson of its game, and a peer that is none."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.alfworld.agent import LESSONS_BLOCK, USED, WON, lessons_in
from benchmarks.peers.play import Sides
from benchmarks.peers.referee import Referee
from jeeves_reflexion import Attempt, Session, Step, Task
from vectorstores import HashingEmbedder

ROOM = "You are in the middle of a room. Looking quickly around you, you see a cabinet 2, a cabinet 1, a drawer 1"
THINGS = ("tomato", "mug", "plate")

FAKE_PEER = """
import time

from benchmarks.peers.link import main, memory

class Fake:
    def __init__(self, link):
        self.link, self.lessons = link, []

    async def start(self, said):
        self.said = said
        return memory()

    async def run(self, said):
        async def work():
            for attempt in range(self.said["trials"]):
                played = self.link.ask("play", block="".join(f"- {lesson}" for lesson in self.lessons[-2:]))
                if played["won"]:
                    return
                lesson = self.link.ask("reflect", steps=played["steps"], won=False)["lesson"]
                self.lessons.append(lesson)
                self.link.ask("embed", texts=[lesson])
        return {**await self.link.timed(work), "unplayed": 1 if said["task"] == "plate" else 0}

    async def close(self, said):
        return {"lessons": len(self.lessons), **memory()}

    async def probe(self, said):
        if said["name"] == "raises":
            raise ValueError("no such thing")
        if said["name"] == "dies":
            print("the last words")
            raise SystemExit(3)
        if said["name"] == "asks":
            self.link.ask("never answered")
        if said["name"] == "hangs":
            time.sleep(60)
        return {"seen": f"{said['name']} | was seen", "holds": said["name"] != "gone"}

async def serve(link):
    fake = Fake(link)
    link.tell({"done": {"version": "0.0", **memory()}})
    print("what is printed is no answer")
    await link.serve({"start": fake.start, "run": fake.run, "close": fake.close, "probe": fake.probe})

main(serve)
"""


def task_of(thing: str) -> Task:
    kind = "look_at_obj_in_light" if thing == "plate" else "pick_and_place_simple"
    return Task(f"{ROOM} and a fridge 1.\n\nYour task is to: put a {thing} in drawer.", id=thing, kind=kind)


class Knowing:
    """Wins where the block names its game's thing."""

    async def __call__(self, task: Task, session: Session) -> Attempt:
        lessons = lessons_in(session.blocks.get(LESSONS_BLOCK, ""))
        useful = [lesson for lesson in lessons[:3] if f"put a {task.id} " in lesson]
        steps = (
            Step("I look.", "go to cabinet 1", "You arrive at cabinet 1. The cabinet 1 is closed."),
            Step(
                "", "open cabinet 1", "You open the cabinet 1. The cabinet 1 is open. In it, you see nothing."
            ),
        )
        return Attempt("", steps, metadata={WON: bool(useful), USED: useful})


class NoEngine(Referee):
    """A referee whose games are not played."""

    def agent(self, seed: int) -> Knowing:  # type: ignore[override]
        return Knowing()


@pytest.fixture
def referee() -> Referee:
    tasks = [task_of(thing) for thing in THINGS]
    return NoEngine(None, {}, tasks, HashingEmbedder(), 16)  # type: ignore[arg-type]


@pytest.fixture
def fake_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Sides]:
    (tmp_path / "fake_peer.py").write_text(FAKE_PEER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def make(trials: int = 3) -> Sides:
        return Sides(Path(sys.executable), trials, peer_module="fake_peer")

    return make


@pytest.fixture
def real_sides() -> Callable[..., Sides]:
    """Sides with the real peer; skips where its interpreter is not named."""
    python = os.environ.get("JEEVES_PEER_PYTHON")
    if not python:
        pytest.skip("JEEVES_PEER_PYTHON names no interpreter with jeevesagent 0.9.7 and faiss-cpu")

    def make(trials: int = 3) -> Sides:
        return Sides(Path(python), trials)

    return make
