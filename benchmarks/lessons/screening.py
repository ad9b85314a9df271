"""``python -m benchmarks.lessons.screening``: what the screen stops, and what logged reflections say at all.

``corpora/attacks.jsonl`` holds texts that command whoever reads them, by kind; ``corpora/benign.jsonl`` lessons, most
of them near misses that use an attack's words. Half of each was not used to write the patterns.
``corpora/judged_reflections.jsonl`` holds what a reader found in a sample of logged reflections, by their digests.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.report import counted_share, out_option, share_of, table, write_result
from jeeves_reflexion.lessons.screening.rules import KINDS, screen
from jeeves_reflexion.statistics import Share, wilson

CORPORA = Path(__file__).with_name("corpora")
SPLITS = ("development", "held_out")
JUDGED = CORPORA / "judged_reflections.jsonl"
SAYS = {
    "act": "names at least one action, condition, object, order of steps or fact for the next try that the task's own"
    " words do not hold, so that whoever sees that try could tell whether it was followed; right or wrong",
    "ruled out": "none of that, but a wrong answer, place or step by its name, which the next try can leave out",
    "none": "neither: it asks to research, check, consider or try something else, or says the task again",
}


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


def _rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _texts(path: Path) -> set[str]:
    found: set[str] = set()
    for row in _rows(path):
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


def said_rows(paths: Sequence[Path]) -> list[tuple[str, str, Share | None, Share | None]]:
    """Return, for each log and each of :data:`SAYS`, its share of the judged texts, and of next tries that passed."""
    rows = []
    for path in paths:
        judged = {each["text"]: each["says"] for each in _rows(JUDGED) if each["log"] == path.stem}
        tries = [(judged.get(_digest(text)), passed) for text, passed in _next_tries(path)]
        rows += [
            (
                path.stem,
                says,
                share_of(each == says for each in judged.values()),
                share_of(p for s, p in tries if s == says),
            )
            for says in SAYS
            if judged
        ]
    return rows


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _next_tries(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield each reflection of a log that another try followed, and whether that one passed."""
    for row in _rows(path):
        passed, trials = row.get("success_by_trial", ()), row.get("trials", ())
        for one in row.get("reflections", ()):
            if one.get("after_trial", len(passed)) + 1 < len(passed):
                yield one["text"], passed[one["after_trial"] + 1]
        for trial, following in itertools.pairwise(trials):
            for text in trial.get("reflections_after", ())[-1:]:
                yield text, bool(following.get("logged_correct"))


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
    page = _page(caught, others, alarms, stopped) + _said_page(said_rows(paths))
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


_SAID = (
    "Measured with `--reflections` and the two logs. Of each, 60 distinct reflections drawn at random"
    ' (`random.Random("judged")`) were read by one reader, without run, trial and result beside them: an AI model'
    " at work on this project, which also wrote the check, so no independent one; nobody judged twice. What was asked"
    ' was fixed before ("does it name a concrete action, condition or object that the next try can follow?"); the'
    " wording below was settled while reading, and results were looked at when all was judged. Wilson intervals, by"
    " reflection: those of one environment are alike, so the true intervals are wider. *Next try passed*: of the tries"
    " in the log that followed such a reflection. The log of HumanEval holds no reflections."
)
_READ = (
    "**What is concrete is not yet of use**: tries after a reflection that names something to do passed no more often"
    " than the others, in either log, as far as these few show. Almost every reflection on ALFWorld names something;"
    " on questions most only name the wrong answer. A check that lets in *act* and *ruled out* would have turned down"
    " the share of *none*. So the check is off by default: no model could be asked here whether it helps."
)


def _said_page(rows: Sequence[tuple[str, str, Share | None, Share | None]]) -> str:
    if not rows:
        return ""
    cells = [(log, says, counted_share(of, 1), counted_share(won, 1)) for log, says, of, won in rows]
    parts = [
        "## What logged reflections say",
        _READ,
        _SAID,
        "\n".join(f"- **{says}**: {meaning}" for says, meaning in SAYS.items()),
        table(["log", "says", "of the sample", "next try passed"], cells),
    ]
    return "\n" + "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
