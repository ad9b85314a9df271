"""``python -m benchmarks.lessons.reflections LOG...``: how concrete logged reflections are.

``corpora/judged_reflections.jsonl`` has a reader's judgments of a sample of them, by the digests of the texts.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.report import counted_share, out_option, share_of, table, write_result
from jeeves_reflexion.statistics import Share

NAME: Final = "lessons_reflections"
JUDGED = Path(__file__).with_name("corpora") / "judged_reflections.jsonl"
SAYS: Final = {
    "act": "names at least one action, condition, object, order of steps or fact for the next try that the task's own"
    " words do not hold, so that whoever sees that try could tell whether it was followed; right or wrong",
    "ruled out": "none of that, but a wrong answer, place or step by its name, which the next try can leave out",
    "none": "neither: it asks to research, check, consider or try something else, or says the task again",
}


def said_rows(paths: Sequence[Path]) -> list[tuple[str, str, Share | None, Share | None]]:
    """Return for each log and each of :data:`SAYS` its share of the judged texts, and of next tries that passed."""
    rows = []
    for path in paths:
        judged = {each["text"]: each["says"] for each in _rows(JUDGED) if each["log"] == path.stem}
        if not judged:
            raise click.UsageError(f"no reflection of {path.name} was judged: see {JUDGED.name}")
        tries = [(judged.get(_digest(text)), passed) for text, passed in _next_tries(path)]
        for says in SAYS:
            of = share_of(each == says for each in judged.values())
            rows.append((path.stem, says, of, share_of(passed for said, passed in tries if said == says)))
    return rows


def _rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _next_tries(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield each reflection in a log that another try followed, and whether that try passed."""
    for row in _rows(path):
        passed, trials = row.get("success_by_trial", ()), row.get("trials", ())
        for one in row.get("reflections", ()):
            if one.get("after_trial", len(passed)) + 1 < len(passed):
                yield one["text"], passed[one["after_trial"] + 1]
        for trial, following in itertools.pairwise(trials):
            for text in trial.get("reflections_after", ())[-1:]:
                yield text, bool(following.get("logged_correct"))


_PAGE: Final = """# What logged reflections say

**A concrete reflection is not necessarily useful**: in both logs, tries after a reflection that names something to do
passed no more often than the others, as far as these few show. Almost every reflection on ALFWorld names something;
on questions most only name the wrong answer. A check that accepts *act* and *ruled out* would have refused the share
of *none*. The check is off by default, because no model was available here to test whether it helps.

Measured by `python -m benchmarks.lessons.reflections` with the two logs. From each, 60 distinct reflections drawn at
random (`random.Random("judged")`) were read by one reader without their run, trial and result: an AI model at work on
this project, which also wrote the check, so it is not independent; nobody judged twice. The question was fixed before
("does it name a concrete action, condition or object that the next try can follow?"). The wording below was settled
while reading, and the results were looked at after all judgments. Wilson intervals, by reflection: those on one
environment are similar, so the true intervals are wider. *Next try passed*: of the tries in the log that followed such
a reflection. The log of HumanEval has no reflections.

{meanings}

{table}
"""


@click.command()
@click.argument("logs", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@out_option(f"{NAME}.json and {NAME}.md")
def main(logs: Sequence[Path], out: Path) -> None:
    """Count what the judged reflections in LOGS say, and how the next tries went."""
    heads = ("log", "says", "of the sample", "next try passed")
    rows = [
        (log, says, counted_share(of, 1), counted_share(won, 1)) for log, says, of, won in said_rows(logs)
    ]
    meanings = "\n".join(f"- **{says}**: {meaning}" for says, meaning in SAYS.items())
    page = _PAGE.format(meanings=meanings, table=table(heads, rows))
    write_result(out, NAME, [dict(zip(heads, row, strict=True)) for row in rows], page)
    click.echo(page)


if __name__ == "__main__":
    main()
