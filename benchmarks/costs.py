"""``python -m benchmarks.costs``: what the framework's own work costs, compared with the bare operation inside it.

There are four parts: ``attempt`` compares the loop with bare model calls, ``lessons`` compares recall and record with a
plain search and a plain add. Two more run only on request: ``embed`` compares one call for many sentences with a call
for each (it needs the model's files), and ``peer`` compares the loop with that of a named peer (which must be
installed). All sides of a part take turns in one process.
"""

from __future__ import annotations

import itertools
import random
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import anyio
import click

from benchmarks.peer import PEER, PEER_VERSION, peer_loop
from benchmarks.report import figure_text, machine, out_option, table, write_result
from benchmarks.timing import Figure, Here, Side, in_turn, median, ratios
from jeeves_reflexion import (
    Completion,
    Evaluation,
    LessonSettings,
    LoopOptions,
    Message,
    Provenance,
    ReAct,
    Reflection,
    Reflexion,
    Task,
    Usage,
    VectorLessonStore,
)
from jeeves_reflexion.lessons.credit.effects import Withholding
from jeeves_reflexion.lessons.settings import Credit
from vectorstores import (
    Chunk,
    FaissVectorStore,
    HashingEmbedder,
    InMemoryVectorStore,
    OnnxEmbedder,
    VectorStore,
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: repetitions, calls in each, lessons in the store, and scored recalls of them."""

    repetitions: int = 15
    calls: int = 40
    lessons: int = 10_000
    scored: int = 2_000


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of one of our calls and of the call it is compared with, and their ratio."""

    part: str
    ours: str
    beside: str
    taken: Figure
    held: Figure
    ratio: Figure


async def compare(part: str, sides: Mapping[str, Side], size: Size, *, first: int = 0) -> list[Cost]:
    """Time the sides in turn, and compare each with the first."""
    taken = await in_turn(sides, repetitions=size.repetitions, calls=size.calls, first=first)
    yardstick, *others = taken
    held = taken[yardstick]
    return [
        Cost(part, name, yardstick, median(taken[name]), median(held), ratios(taken[name], held))
        for name in others
    ]


REPLIES: Final = ("The answer is forty-two.", "score: 0.1", "Count once more before you answer.")
"""The replies of the instant model, in turn: the agent's answer, the verdict on it, and the lesson."""
ASKED: Final = "What is six times seven?"
COMMITS: Final = 6
"""The commits that a run of three failing attempts with a lesson each makes in a folder."""


class InstantModel:
    """The smallest possible ``ChatModel``: it cycles through its replies."""

    name = "instant"
    supports_tools = False

    def __init__(self, replies: Sequence[str]) -> None:
        self._completions = itertools.cycle(Completion(reply, usage=Usage(calls=1)) for reply in replies)
        self.calls = 0

    async def complete(self, messages: Sequence[Message], **_: Any) -> Completion:  # noqa: ANN401
        """Return the next reply."""
        self.calls += 1
        return next(self._completions)


def failing_loop(*, learn: bool) -> tuple[Reflexion, InstantModel]:
    """Return a loop whose attempts all fail: one attempt per run, or three with a lesson after each."""
    model = InstantModel(REPLIES if learn else REPLIES[:2])
    loop = Reflexion(
        ReAct(model), model=model, max_attempts=3 if learn else 1, options=LoopOptions(learn=learn)
    )
    return loop, model


async def attempts(size: Size) -> list[Cost]:
    """Compare the loop over ReAct, with the model as judge and reflector, with as many bare calls of the model."""
    costs: list[Cost] = []
    for learn, name in ((False, "1 failing attempt, no lessons"), (True, "3 failing attempts with lessons")):

        async def run(_: int, learn: bool = learn) -> None:  # noqa: FBT001
            await failing_loop(learn=learn)[0].run(ASKED)

        loop, counted = failing_loop(learn=learn)
        await loop.run(ASKED)

        async def bare(_: int, learn: bool = learn, calls: int = counted.calls) -> None:  # noqa: FBT001
            model = failing_loop(learn=learn)[1]
            for _number in range(calls):
                await model.complete([])

        sides = {f"{counted.calls} bare calls, the loop made and not run": Here(bare), name: Here(run)}
        costs += await compare("attempt", sides, size)
    return costs


def stored_loop(store: VectorStore | None = None) -> Reflexion:
    """Return a loop of three failing attempts with a lesson each, over ``store`` or a new store in memory."""
    model = InstantModel(REPLIES)
    return Reflexion(ReAct(model), model=model, lesson_store=store or InMemoryVectorStore(HashingEmbedder()))


async def peers(size: Size) -> list[Cost]:
    """Compare the loop with the peer's (``benchmarks/peer.py``), which redacts nothing; each loop is made once.

    With a store in memory, both loops are made anew for each run, because the store grows with each run: both store
    equal lessons, ours as one. Our loop over a folder is made once, and so is the peer's over its FAISS store, which
    keeps nothing on disk. A third side shows what the disk allows: as many bare durable commits as our run makes.
    """
    costs: list[Cost] = []
    for learn, name in ((False, "1 failing attempt, no lessons"), (True, "3 failing attempts with lessons")):
        theirs = peer_loop(REPLIES if learn else REPLIES[:2], 3 if learn else 1)

        async def run(_: int, loop: Reflexion = failing_loop(learn=learn)[0]) -> None:  # noqa: B008 - one for all calls
            await loop.run(ASKED)

        async def peer(_: int, theirs: Callable[[], Awaitable[object]] = theirs) -> None:
            await theirs()

        costs += await compare("peer", {f"{PEER} {PEER_VERSION}": Here(peer), name: Here(run)}, size)

    async def over_a_store(_: int) -> None:
        await stored_loop().run(ASKED)

    async def peer_over_a_store(_: int) -> None:
        await peer_loop(REPLIES, 3, store="InMemoryVectorStore")()

    sides: dict[str, Side] = {
        f"{PEER} {PEER_VERSION}, in memory": Here(peer_over_a_store),
        "3 failing attempts with lessons in a store in memory, made for each run": Here(over_a_store),
    }
    costs += await compare("peer", sides, size)
    peer_over_faiss = peer_loop(REPLIES, 3, store="FAISSVectorStore")
    with tempfile.TemporaryDirectory() as folder:
        async with FaissVectorStore(folder, embedder=HashingEmbedder(), namespace="peer") as store:
            durable = stored_loop(store)
            with closing(sqlite3.connect(Path(folder) / "bare", isolation_level=None)) as bare:
                bare.execute("PRAGMA journal_mode=WAL")
                bare.execute("PRAGMA synchronous=FULL")
                bare.execute("CREATE TABLE rows (value BLOB)")

                async def commits(_: int) -> None:
                    for _number in range(COMMITS):
                        bare.execute("INSERT INTO rows VALUES (?)", (bytes(2048),))

                sides = {
                    f"{PEER} {PEER_VERSION}, in its FAISS store": Here(lambda _: peer_over_faiss()),
                    "3 failing attempts with lessons in a folder, durable": Here(
                        lambda _: durable.run(ASKED)
                    ),
                    f"{COMMITS} bare durable commits of 2 kB in that folder": Here(commits),
                }
                return costs + await compare("peer", sides, size)


async def embeddings(size: Size) -> list[Cost]:
    """Compare one new sentence, and 32 sentences in one call, with 32 calls one after the other (all-MiniLM-L6-v2)."""
    embedder, few = OnnxEmbedder(), replace(size, calls=4)
    texts = [task.prompt for task, _ in tasks(32 * few.calls * (few.repetitions + 1), seed=2)]

    async def each_alone(number: int) -> None:
        for text in texts[32 * number : 32 * number + 32]:
            await embedder.embed([text])

    sides: dict[str, Side] = {
        "32 sentences, one call after the other": Here(each_alone),
        "32 sentences in one call": Here(lambda n: embedder.embed(texts[32 * n : 32 * n + 32])),
        "one sentence": Here(lambda n: embedder.embed(texts[n : n + 1])),
    }
    await embedder.embed(texts[:32])
    return await compare("embed", sides, few)


# fmt: off
_VERBS: Final = ("clean", "heat", "cool", "find", "examine", "move", "slice", "stack", "photograph", "weigh")
_THINGS: Final = ("mug", "potato", "apple", "plate", "ladle", "egg", "tomato", "knife", "bowl", "pan", "lettuce")
_PLACES: Final = ("fridge", "cabinet", "drawer", "shelf", "desk", "side table", "microwave", "sink", "counter")
# fmt: on


def tasks(number: int, seed: int) -> list[tuple[Task, str]]:
    """Return different tasks, each with a lesson of its own; the seed decides their order."""
    found = list(itertools.product(_VERBS, _THINGS, _PLACES, range(1, 101)))
    random.Random(seed).shuffle(found)
    return [
        (
            Task(f"{verb} the {thing} and put it on {place} {n} before the guests arrive", kind=verb),
            f"Look for the {thing} near {place} {n} before you {verb} it, and close what you opened.",
        )
        for verb, thing, place, n in found[:number]
    ]


async def lessons(size: Size) -> list[Cost]:
    """Compare recall with a plain search, and record with a plain add, over one folder with hashing vectors."""
    known, source = tasks(size.lessons, seed=0), Provenance("run", 1, 0.0, created_at=1.0)
    with tempfile.TemporaryDirectory() as folder:
        async with FaissVectorStore(
            Path(folder) / "store", embedder=HashingEmbedder(dim=384), namespace="plain"
        ) as plain:
            off = VectorLessonStore(plain.scoped("lessons"))
            settings = LessonSettings(credit=Credit(Withholding(0.1, seed=1)))
            on = VectorLessonStore(plain.scoped("lessons"), settings=settings)
            await plain.add([Chunk(text, embed_text=task.prompt) for task, text in known])
            for task, text in known:
                await off.record(task, Reflection(text), provenance=source)
            asked = [task for task, _ in tasks(size.scored, seed=1)]
            for number, task in enumerate(asked):
                recall = await on.recall(task, k=5, run_id=f"run{number}", attempt=1)
                await on.outcome(recall.id, Evaluation(float(number % 3 > 0)))

            async def scored(number: int) -> None:
                recall = await off.recall(asked[number % len(asked)], k=5, run_id=f"c{number}")
                await off.outcome(recall.id, Evaluation(0.5))

            reads: dict[str, Side] = {
                "plain search": Here(lambda n: plain.search(asked[n % len(asked)].prompt, k=5)),
                "recall, credit off": Here(lambda n: off.recall(asked[n % len(asked)], k=5, run_id=f"a{n}")),
                "recall, credit on": Here(lambda n: on.recall(asked[n % len(asked)], k=5, run_id=f"b{n}")),
                "recall and its outcome, credit off": Here(scored),
            }
            costs = await compare("lessons", reads, size)
            more = tasks(size.lessons + (size.repetitions + 1) * size.calls, seed=0)

            async def add(number: int) -> None:
                task, text = more[number]
                await plain.add([Chunk(text, embed_text=task.prompt)])

            async def record(number: int) -> None:
                task, text = more[number]
                await off.record(task, Reflection(text), provenance=source)

            writes: dict[str, Side] = {"plain add": Here(add), "record a new lesson": Here(record)}
            return costs + await compare("lessons", writes, size, first=size.lessons)


PARTS: Final = {"attempt": attempts, "lessons": lessons, "embed": embeddings, "peer": peers}
_PAGE: Final = """# What the framework's own work costs

Measured by `python -m benchmarks.costs` on {machine}: {repetitions} repetitions of {calls} calls,
the sides taking turns in one process. A time is the median over the repetitions of their median,
with a 95 % bootstrap interval; a ratio compares calls that are neighbours in time. The lesson store holds {lessons:,}
lessons in a FAISS folder with hashing vectors, and {scored:,} scored recalls. A recall looks at one candidate more than
a plain search, with credit at four times as many, and checks each as a lesson. An outcome also writes its recall,
durably. A record redacts, screens, looks for an equal lesson, and writes two chunks and two records.

{table}
"""


def page(costs: Sequence[Cost], size: Size) -> str:
    """Return the page in Markdown."""

    def milliseconds(figure: Figure) -> str:
        return figure_text(figure, 3, scale=1e3)

    rows = [
        (c.part, c.ours, milliseconds(c.taken), f"{milliseconds(c.held)} ({c.beside})", figure_text(c.ratio))
        for c in costs
    ]
    heads = ["part", "what", "ours, ms", "beside it, ms", "ours : beside"]
    return _PAGE.format(machine=machine(), table=table(heads, rows), **asdict(size))


@click.command()
@click.option("--part", "parts", type=click.Choice(list(PARTS)), multiple=True, default=list(PARTS)[:2])
@click.option("--repetitions", type=click.IntRange(min=2), default=15, show_default=True)
@click.option("--calls", type=click.IntRange(min=1), default=40, show_default=True, help="In a repetition.")
@click.option("--lessons", type=click.IntRange(min=10, max=40_000), default=10_000, show_default=True)
@click.option("--scored", type=click.IntRange(min=10, max=40_000), default=2_000, show_default=True)
@out_option("costs.json and costs.md")
def main(parts: tuple[str, ...], out: Path, **size: int) -> None:
    """Measure what the framework's own work costs, and write the page."""
    sizes = Size(**size)
    costs = [cost for part in parts for cost in anyio.run(PARTS[part], sizes)]
    text = page(costs, sizes)
    write_result(out, "costs", {**asdict(sizes), "costs": [asdict(each) for each in costs]}, text)
    click.echo(text)


if __name__ == "__main__":
    main()
