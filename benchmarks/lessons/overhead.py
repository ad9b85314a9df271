"""``python -m benchmarks.lessons.overhead``: what gate and credit cost beside a plain search and a plain add."""

from __future__ import annotations

import itertools
import platform
import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import anyio
import click

from benchmarks.results import out_option, write_result
from benchmarks.vectorstores.measure import Figure, Here, Side, in_turn, median, ratios
from jeeves_reflexion import Evaluation, LessonSettings, Provenance, Reflection, Task, VectorLessonStore
from jeeves_reflexion.lessons.credit.effects import Withholding
from jeeves_reflexion.lessons.records import INDEXED
from jeeves_reflexion.lessons.settings import Credit
from vectorstores import Chunk, Embedder, FaissVectorStore, HashingEmbedder
from vectorstores.embedders import default_embedder

K: Final = 5
_VERBS: Final = ("clean", "heat", "cool", "find", "examine", "move", "slice", "stack", "photograph", "weigh")
_THINGS: Final = (
    "mug", "potato", "apple", "plate", "ladle", "egg", "tomato", "knife", "bowl", "pan", "lettuce", "bread", "cup",
    "spoon", "kettle", "pot", "fork", "cloth", "soap bar", "candle", "vase", "statue", "pencil", "laptop", "pillow",
)  # fmt: skip
_PLACES: Final = (
    "fridge", "cabinet", "drawer", "shelf", "desk", "side table", "coffee machine", "microwave", "sink", "counter",
    "dining table", "sofa", "garbage can", "safe", "dresser", "bed", "arm chair", "bathtub", "toilet", "cart",
)  # fmt: skip
_END: Final = " before the guests arrive"


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison: seconds a call of ours and of the yardstick, and our time as a multiple of it."""

    what: str
    ours: Figure
    beside: Figure
    ratio: Figure


def tasks(number: int, seed: int) -> list[Task]:
    """Return different tasks, in the same order for the same seed."""
    pairs = list(itertools.product(_VERBS, _THINGS, _PLACES, range(1, 11)))
    random.Random(seed).shuffle(pairs)
    return [
        Task(
            f"{verb} the {thing} and put it on {place} {n}{_END}",
            kind=verb,
            tools=("look",),
        )
        for verb, thing, place, n in pairs[:number]
    ]


def lesson(task: Task) -> str:
    """Return a sentence that no other task of :func:`tasks` has."""
    asked, _, rest = task.prompt.partition(" and put it on ")
    verb, _, thing = asked.partition(" the ")
    place = rest.removesuffix(_END)
    return f"Look for the {thing} near {place} before you {verb} it, and close what you opened."


async def fill(store: FaissVectorStore, lessons: VectorLessonStore, known: Sequence[Task]) -> None:
    """Put the same lessons into the plain store, as chunks, and into the lesson store."""
    source = Provenance("run", 1, 0.0, created_at=1.0)
    await store.add(
        [Chunk(lesson(task), embed_text=task.prompt, metadata={"kind": task.kind}) for task in known]
    )
    limit = anyio.CapacityLimiter(32)

    async def record(task: Task) -> None:
        async with limit:
            await lessons.record(task, Reflection(lesson(task)), provenance=source)

    async with anyio.create_task_group() as group:
        for task in known:
            group.start_soon(record, task)


async def play(lessons: VectorLessonStore, asked: Sequence[Task]) -> None:
    """Fill the ledger: a recall and its outcome for each task."""
    for number, task in enumerate(asked):
        recall = await lessons.recall(task, k=K, run_id=f"run{number}", attempt=1)
        await lessons.outcome(recall.id, Evaluation(float(number % 3 > 0)))


async def measure(
    folder: Path,
    embedder: Embedder,
    known: Sequence[Task],
    asked: Sequence[Task],
    *,
    repetitions: int,
    calls: int,
) -> list[Row]:
    """Compare recalls and writes over one folder."""
    rows: list[Row] = []
    plain = FaissVectorStore(folder, embedder=embedder, namespace="plain", indexed=INDEXED)
    async with plain:
        off = VectorLessonStore(plain.scoped("lessons"))
        credit = Credit(Withholding(0.1, seed=1))
        on = VectorLessonStore(plain.scoped("lessons"), settings=LessonSettings(credit=credit))
        await fill(plain, off, known)
        await play(on, asked)
        turns = {
            "plain search": Here(lambda n: plain.search(asked[n % len(asked)].prompt, k=K)),
            "recall, credit off": Here(lambda n: off.recall(asked[n % len(asked)], k=K, run_id=f"a{n}")),
            "recall, credit on": Here(lambda n: on.recall(asked[n % len(asked)], k=K, run_id=f"b{n}")),
        }
        rows += await _compared(turns, "plain search", repetitions, calls)
        new = iter(tasks(len(known) + 4 * repetitions * calls, seed=0)[len(known) :])
        source = Provenance("run", 1, 0.0, created_at=1.0)

        async def add(_: int) -> None:
            task = next(new)
            await plain.add([Chunk(lesson(task), embed_text=task.prompt)])

        async def record(_: int) -> None:
            task = next(new)
            await off.record(task, Reflection(lesson(task)), provenance=source)

        writes: dict[str, Side] = {"plain add": Here(add), "record a new lesson": Here(record)}
        rows += await _compared(writes, "plain add", repetitions, calls)
    return rows


async def _compared(turns: Mapping[str, Side], yardstick: str, repetitions: int, calls: int) -> list[Row]:
    taken = await in_turn(turns, repetitions=repetitions, calls=calls)
    beside = taken[yardstick]
    return [
        Row(name, median(each), median(beside), ratios(each, beside))
        for name, each in taken.items()
        if name != yardstick
    ]


def table(found: dict[str, list[Row]], size: int) -> str:
    """Return the Markdown table."""
    lines = ["| embedder | what | ours | beside it | times |", "| --- | --- | --- | --- | --- |"]
    for embedder, rows in found.items():
        for row in rows:
            beside = "plain add" if "record" in row.what else "plain search"
            lines.append(
                f"| {embedder} | {row.what}, {size:,} lessons | {_ms(row.ours)} | {_ms(row.beside)} ({beside}) | "
                f"{row.ratio.value:.2f} ({row.ratio.low:.2f} to {row.ratio.high:.2f}) |"
            )
    return "\n".join(lines)


def _ms(figure: Figure) -> str:
    return f"{1000 * figure.value:.2f} ms ({1000 * figure.low:.2f} to {1000 * figure.high:.2f})"


_PAGE: Final = """# What gate and credit cost

Measured by `{command}` on Python {python}, {machine}. One FAISS folder holds {size:,} lessons and, in a namespace of
its own, the same texts as plain chunks. The sides take turns: {repetitions} repetitions of {calls} calls; a time is the
median over the repetitions of their median, with a 95 % bootstrap interval, and a ratio is taken between neighbours
in time.

A *plain search* is `store.search(text, k={k})`. A *recall* adds: redaction of the task, the filter on what may be
recalled, {pool} times as many candidates, order, near-copies, token budget, and a durable entry of the ledger (one
transaction, what a plain search does not have at all); with *credit on* also each candidate's lift, utility and
verdict from {asked:,} scored attempts, and the draw. A *record* is held against adding one plain chunk: it searches
for twins, compares what it found word by word, and writes two faces and an entry of its history in one transaction;
the embedding of its text is kept in one before. *hashing* needs no model, so all that differs shows; *MiniLM* (ONNX)
embeds in both sides, texts that were seen before from the cache.

{table}
"""


async def _run(size: int, asked: int, repetitions: int, calls: int, *, model: bool) -> dict[str, list[Row]]:
    known = tasks(size, seed=0)
    queries = tasks(asked, seed=1)
    embedders: dict[str, Embedder] = {"hashing": HashingEmbedder(dim=384)}
    if model:
        embedders["MiniLM"] = default_embedder()
    found = {}
    for name, embedder in embedders.items():
        with tempfile.TemporaryDirectory() as folder:
            click.echo(f"{name}: {size:,} lessons ...", err=True)
            found[name] = await measure(
                Path(folder), embedder, known, queries, repetitions=repetitions, calls=calls
            )
    return found


@out_option("lessons_overhead.md and .json")
@click.command()
@click.option("--size", type=click.IntRange(min=10, max=40_000), default=10_000, show_default=True)
@click.option(
    "--asked",
    type=click.IntRange(min=10, max=40_000),
    default=2_000,
    show_default=True,
    help="Scored recalls.",
)
@click.option("--repetitions", type=click.IntRange(min=2), default=15, show_default=True)
@click.option("--calls", type=click.IntRange(min=1), default=40, show_default=True)
@click.option(
    "--model/--no-model", default=True, show_default=True, help="Measure with the real encoder as well."
)
def main(*, size: int, asked: int, repetitions: int, calls: int, model: bool, out: Path) -> None:
    """Measure and write the table."""
    found = anyio.run(lambda: _run(size, asked, repetitions, calls, model=model))
    page = _PAGE.format(
        command="python -m benchmarks.lessons.overhead",
        python=platform.python_version(),
        machine=f"{platform.system()} {platform.machine()}",
        size=size,
        repetitions=repetitions,
        calls=calls,
        k=K,
        pool=4,
        asked=asked,
        table=table(found, size),
    )
    write_result(
        out, "lessons_overhead", {name: [asdict(row) for row in rows] for name, rows in found.items()}, page
    )
    click.echo(table(found, size))


if __name__ == "__main__":
    main()
