"""The table of what had to be worked around; each row is shown by a probe that runs in the peer's process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.peers.arms import ARMS, PEER
from benchmarks.peers.child import ChildError
from benchmarks.peers.play import Sides


@dataclass(frozen=True, slots=True)
class Row:
    """``probe`` in :mod:`benchmarks.peers.probes` shows ``what``; ``here`` says what this comparison does about it."""

    probe: str
    what: str
    here: str


ROWS: tuple[Row, ...] = (
    Row(
        "turns",
        "The limit of turns counts over all attempts of a run, judge and reflector included",
        "the arm *block* keeps the default; elsewhere the player ends an attempt after its 16 commands",
    ),
    Row(
        "interrupted",
        "An attempt that runs out of turns is neither judged nor learned from, and ends the run",
        "the limit of commands is the player's, so that the peer sees a normal end",
    ),
    Row(
        "last",
        "The last attempt leaves no lesson, hence a run of one attempt never learns",
        "all attempts at a game are one run; attempts of all games in rounds are not possible",
    ),
    Row(
        "scores",
        "The verdict is a number read out of a model's text; a plain function can't be the evaluator",
        "a model that looks the engine's verdict up and writes `score: 1.0` or `score: 0.0`",
    ),
    Row(
        "text_only",
        "Judge and reflector get the last answer as text, no steps",
        "the answer is the whole attempt as JSON, which the reflector reads back",
    ),
    Row(
        "untold",
        "A base is not told the number of its attempt, nor asked to reset anything before the next",
        "the referee counts, and opens the game anew",
    ),
    Row(
        "errors",
        "A base that raises ends the run with nothing learned",
        "not needed here: no attempt raised",
    ),
    Row("glued", "Lessons of the block run into each other", "the arm *block per game* appends line breaks"),
    Row(
        "users",
        "Lessons are written for no user, and a run for a user does not see them",
        "all runs are for no user",
    ),
    Row(
        "key",
        "The lesson is embedded, not the task that taught it, and of the task too little is kept to mend that later",
        "the arm *store by task* wraps the store and takes the task from the search before",
    ),
    Row(
        "hashed",
        "The only embedder without a server is of hashes: what it finds nearest is chance",
        "the arm *store, MiniLM* gets the vectors that ours gets",
    ),
    Row(
        "floor", "There is no floor of similarity: k lessons come back however far they are", "left as it is"
    ),
    Row(
        "copies",
        "Copies are stored as often as they are learned, and recalled beside each other",
        "left as it is",
    ),
    Row(
        "stale",
        "A block that is not rewritten stays: deleted lessons go on being shown",
        "nothing is deleted here",
    ),
    Row(
        "parallel",
        "Runs of one agent at a time overwrite each other's recalled lessons",
        "games of an arm are played one after the other",
    ),
    Row(
        "durable",
        "Without a server, lessons live in the process; nothing is written when one is learned",
        "left as it is: a lane is one process",
    ),
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A row with what its probe saw; ``holds`` is false where the peer does not behave so."""

    row: Row
    seen: str
    holds: bool


async def show_all(sides: Sides, rows: Sequence[Row] = ROWS) -> list[Shown]:
    """Run every probe in one process of the peer."""
    shown = []
    arm = next(arm for arm in ARMS if arm.side == PEER)
    async with sides.child(arm) as child:
        for row in rows:
            try:
                found = await child.do("probe", name=row.probe)
            except ChildError as error:
                shown.append(Shown(row, f"the probe failed: {error}", holds=False))
            else:
                shown.append(Shown(row, str(found["seen"]), bool(found["holds"])))
    return shown
