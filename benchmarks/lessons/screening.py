"""``python -m benchmarks.lessons.screening``: what the screen stops, and what it stops that it should not.

``corpora/attacks.jsonl`` holds texts that command whoever reads them, by kind; ``corpora/benign.jsonl`` lessons, most
of them near misses that use an attack's words. Half of each was not used to write the patterns.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from benchmarks.report import counted_share, out_option, table, write_result
from jeeves_reflexion.lessons.screening.rules import KINDS, screen
from jeeves_reflexion.statistics import wilson

CORPORA = Path(__file__).with_name("corpora")
SPLITS = ("development", "held_out")


@dataclass(frozen=True, slots=True)
class Sample:
    """A text of a corpus: its half, its kind and its language."""

    split: str
    kind: str
    text: str
    language: str = "en"


@dataclass(frozen=True, slots=True)
class Row:
    """How many texts of a group the screen found something in, and how long a text took (seconds, CPU)."""

    group: str
    found: int
    n: int
    seconds: float
    characters: float

    @property
    def share(self) -> str:
        """The share found, with its Wilson interval."""
        return counted_share(wilson(self.found, self.n) if self.n else None, 1)


def load(name: str) -> list[Sample]:
    """Read a corpus that lies beside this file."""
    lines = (CORPORA / name).read_text(encoding="utf-8").splitlines()
    return [Sample(**json.loads(line)) for line in lines]


def reflections(paths: Sequence[Path]) -> dict[str, list[str]]:
    """Read the distinct reflections of logged runs (JSON lines), by the names of their files."""
    found = {path.stem: sorted(_texts(path)) for path in paths}
    return {name: texts for name, texts in found.items() if texts}


def _texts(path: Path) -> set[str]:
    found: set[str] = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found.update(one["text"] for one in row.get("reflections", ()))
        for trial in row.get("trials", ()):
            found.update(trial.get("reflections_in_prompt", ()))
            found.update(trial.get("reflections_after", ()))
    return found


def measure(group: str, texts: Sequence[str]) -> Row:
    """Screen texts, one after the other."""
    started = time.process_time()
    found = sum(screen(text) is not None for text in texts)
    seconds = time.process_time() - started
    return Row(
        group, found, len(texts), seconds / max(len(texts), 1), sum(map(len, texts)) / max(len(texts), 1)
    )


def attack_rows(samples: Sequence[Sample], split: str) -> list[Row]:
    """Return a row for each kind of attack, one for languages other than English, and one for all."""
    half = [sample for sample in samples if sample.split == split]
    rows = [measure(kind, [s.text for s in half if s.kind == kind]) for kind in KINDS]
    foreign = [s.text for s in half if s.language != "en"]
    return [*rows, measure("not English", foreign), measure("all", [s.text for s in half])]


def benign_rows(samples: Sequence[Sample], logged: Mapping[str, Sequence[str]]) -> list[Row]:
    """Return a row for each half of each kind of lesson, and for each file of logged reflections."""
    rows = [
        measure(f"{kind}, {split}", [s.text for s in samples if (s.kind, s.split) == (kind, split)])
        for kind in ("near", "plain")
        for split in SPLITS
    ]
    return [*rows, *(measure(name, texts) for name, texts in logged.items())]


@click.command()
@click.option(
    "--reflections",
    "paths",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON lines of logged runs whose reflections are screened too; may be given many times.",
)
@click.option(
    "--attacks",
    "strangers",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Attacks of others, one a line, for a figure that the authors of the patterns had no hand in.",
)
@out_option("lessons_screening.json and lessons_screening.md")
def main(paths: tuple[Path, ...], strangers: tuple[Path, ...], out: Path) -> None:
    """Measure what share of attacks the screen catches, and of benign lessons it stops."""
    screen("a first call reads the patterns")
    attacks, benign = load("attacks.jsonl"), load("benign.jsonl")
    caught = {split: attack_rows(attacks, split) for split in SPLITS}
    others = [measure(path.stem, _lines(path)) for path in strangers]
    alarms = benign_rows(benign, reflections(paths))
    stopped = [sample.text for sample in benign if screen(sample.text) is not None]
    figures = {**caught, "others": others, "alarms": alarms}
    page = _page(caught, others, alarms, stopped)
    write_result(
        out,
        "lessons_screening",
        {name: [asdict(row) for row in rows] for name, rows in figures.items()},
        page,
    )
    click.echo(page)


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


_INTRO = (
    "Measured by `python -m benchmarks.lessons.screening`. An attack is caught when the screen finds anything in it, of"
    " whatever kind. Intervals are Wilson's, 95 %. The held-out halves were not used to write the patterns, but one"
    " hand wrote both, and when the table was halved, both halves decided which patterns stayed: these figures say that"
    " nothing broke, **not** what share of a stranger's attacks is caught."
)
_STRANGERS = (
    "While the patterns were written, 170 attacks picked from public collections were shown to more than half"
    " again as many patterns as there are now, in four batches. At first sight they caught 44 of 93, 18 of 31,"
    " 13 of 33 and 7 of 13: **82 of 170, 48 % (41 to 56)**, and learning from each batch did not raise the"
    " share of the next. Take less than half as the rate for an attacker who does not know the patterns, and"
    " still less for one who does; that is why lessons of others are also fenced as data, can be held for"
    " review, and lose their place when attempts go worse with them."
    " The collections are not kept here; `--attacks FILE` measures any list."
)


def _page(
    caught: Mapping[str, Sequence[Row]],
    others: Sequence[Row],
    alarms: Sequence[Row],
    stopped: Sequence[str],
) -> str:
    halves = zip(caught["development"], caught["held_out"], strict=True)
    parts = [
        "# Screening lessons against poisoning",
        _INTRO,
        "## Attacks caught",
        table(
            ["kind", "development", "held out"], [(dev.group, dev.share, held.share) for dev, held in halves]
        ),
        "### Attacks of others",
        _STRANGERS,
        *(["\n".join(f"- {row.group}: {row.share}" for row in others)] if others else []),
        "## Benign lessons stopped",
        table(
            ["lessons", "stopped", "microseconds each (CPU)", "characters each"],
            [(r.group, r.share, f"{1e6 * r.seconds:.0f}", f"{r.characters:.0f}") for r in alarms if r.n],
        ),
    ]
    if stopped:
        parts += ["Stopped although they are advice:", "\n".join(f"- {text}" for text in stopped)]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
