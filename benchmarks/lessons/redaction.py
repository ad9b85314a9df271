"""``python -m benchmarks.lessons.redaction``: recall and precision on the labelled corpus, speed beside others."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

import click

from benchmarks.lessons.redaction_corpus import Half, load
from benchmarks.lessons.redaction_measures import (
    Redact,
    Score,
    detect_secrets,
    hits_in,
    module_at,
    score,
    seconds,
    texts_of,
)
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.statistics import wilson

LESSON = (
    "In this environment, my plan was to find a plate then clean it with sinkbasin 1, then put it in countertop 2;"
    " next time look in cabinet 4 before 15 steps."
)
_HALVES: tuple[Half, ...] = ("dev", "heldout", "second", "third")
_REFILLS = 12
_PEER = "detect-secrets"
_COST = """The sides take turns in one run, each warmed up once; medians. detect-secrets, with all its detectors, looks
for secrets alone, not for people or places, and reports values without replacing any."""
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--texts", type=_FILE, multiple=True, help="JSON lines (or .gz) without secrets: every mark is a mistake."
)
@click.option("--before", type=_FILE, help="An older version of the module, one file, to compare with.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of what fills the corpus.")
@click.option("--rounds", type=click.IntRange(min=1), default=7, show_default=True)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("docs/results"), show_default=True
)
def main(texts: tuple[Path, ...], before: Path | None, seed: int, rounds: int, out: Path) -> None:
    """Measure redaction and write lessons_redaction.md."""
    old = module_at(before) if before else None
    parts = [_head(seed), *_recall(seed, old), *_others(texts), *_speed(texts, old, rounds, seed)]
    page = "\n".join([*parts, ""])
    out.mkdir(parents=True, exist_ok=True)
    (out / "lessons_redaction.md").write_text(page, encoding="utf-8")
    click.echo(page)


def _head(seed: int) -> str:
    return f"""# Redaction: what is found, what is hidden by mistake, what it costs

```
python -m benchmarks.lessons.redaction --texts FILE ... --before OLD_MODULE
```
Fill seed {seed}, {platform.python_implementation()} {platform.python_version()}, {platform.machine()}. The corpus is
ours (`benchmarks/lessons/corpora/redaction_*.jsonl`): short texts as an agent or a log writes them, the values
filled in by a seeded generator. The patterns were developed on the half `dev`. The half `heldout` was written
before the patterns, and none was changed for it; but the same author wrote both within the hour, so that its
figures are an upper bound of what texts of strangers would show. Other fills, of both halves, then showed leaks
that fill 0 does not have (passwords with `#`, `%` or `*` in three settings, 4 % of the random words); they were
mended, so that the row of the other fills is no longer held out either. `second` and `third` were written later, as a
sceptical reader would try the kinds, without a look at the patterns; nine of the texts turned out to stand in the older
halves too. At first contact 235 of 301 texts of `second` were found, and 6 of 271 without secrets changed (three of
these by the rule that every mailbox and every address of a machine goes; they are labelled so now). Then patterns were
added. Of `third`, written after that, 58 of 82 were found and 10 of 82 without secrets changed, seven of them by the
patterns just added; then these were mended too. The two counts of first contact, not the columns below, say what to
expect of texts of strangers. A text counts as found only if no
character of a labelled value is left. Intervals are Wilson's, 95 %; those of the other fills count a text of
the same words several times, and are too narrow.
"""


def _recall(seed: int, old: Redact | None) -> list[str]:
    parts = [score(load(half, seed=seed), redact) for half in _HALVES]
    rows = [
        _row(kind, *(part.kinds.get(kind, (0, 0)) for part in parts))
        for kind in sorted({kind for part in parts for kind in part.kinds})
    ]
    rows.append(_row("**all**", *((part.found, part.positives) for part in parts)))
    refills = [
        [score(load(half, seed=seed + each), redact) for each in range(1, _REFILLS + 1)] for half in _HALVES
    ]
    again = [(sum(one.found for one in each), sum(one.positives for one in each)) for each in refills]
    rows.append(_row(f"all, with {_REFILLS} other fills", *again))
    if old is not None:
        olds = [score(load(half, seed=seed), old) for half in _HALVES]
        rows.append(_row("before this module", *((one.found, one.positives) for one in olds)))
    rows += [
        _row("nothing else hidden in these", *((part.kept, part.positives) for part in parts)),
        _row("marks on a labelled value (precision)", *((part.right_marks, part.marks) for part in parts)),
        _row("texts without secrets that were changed", *((part.hit, part.negatives) for part in parts)),
    ]
    lists = [
        line for half, part in zip(_HALVES, parts, strict=True) for line in _list(f"Left in {half}", part)
    ]
    head = ["| found | " + " | ".join(_HALVES) + " |", "| --- |" + " --- |" * len(_HALVES)]
    return [*head, *rows, "", *lists]


def _row(name: str, *shares: tuple[int, int]) -> str:
    return f"| {name} | {' | '.join(_share(*share) for share in shares)} |"


def _list(title: str, half: Score) -> list[str]:
    lines = [f"- not found ({one.row.kind}): `{_plain(one.clean)}`" for one in half.misses]
    lines += [f"- changed by mistake: `{_plain(one.clean)}`" for one in half.mistakes]
    return [f"{title}:", *lines, ""] if lines else []


def _plain(text: str) -> str:
    return text.replace("`", "'").replace("\n", " ")[:140]


def _share(successes: int, n: int) -> str:
    if n == 0:
        return "-"
    share = wilson(successes, n)
    return f"{successes}/{n} = {share.value:.1%} ({share.low:.1%} to {share.high:.1%})"


def _others(paths: tuple[Path, ...]) -> list[str]:
    rows = [
        "## Texts of others",
        "",
        "| file | texts | million characters | marks |",
        "| --- | --- | --- | --- |",
    ]
    listed = []
    for path in paths:
        texts = texts_of(path)
        hits = hits_in(texts, redact)
        rows.append(f"| {path.name} | {len(texts)} | {sum(map(len, texts)) / 1e6:.2f} | {len(hits)} |")
        listed += [f"- {path.name}: `{_plain(hit)}`" for hit in hits]
    return [*rows, "", *listed, ""] if paths else []


def _speed(paths: tuple[Path, ...], old: Redact | None, rounds: int, seed: int) -> list[str]:
    lessons = [LESSON] * 200
    sentences = [text for path in paths for text in texts_of(path)] or [
        row.text for row in load("dev", seed=seed)
    ]
    log = "\n".join(sentences)[:200_000]
    peer = detect_secrets()
    rows = []
    for title, texts in (
        (f"a lesson of {len(LESSON)} characters", lessons),
        (f"one text of {len(log):,}", [log]),
    ):
        sides: dict[str, Callable[[], object]] = {"redact": _over(redact, texts)}
        if old is not None:
            sides["redact before"] = _over(old, texts)
        if peer is not None:
            sides[_PEER] = _over(peer, texts[:2])
        took = seconds(sides, rounds if len(texts) > 1 else max(1, rounds // 2))
        ours = took["redact"] / len(texts)
        for name, whole in took.items():
            each = whole / len(texts[:2] if name == _PEER else texts)
            speed = len(texts[0]) / each / 1e6
            rows.append(f"| {title} | {name} | {1e6 * each:,.0f} | {speed:.3f} | {each / ours:.1f} |")
    return [
        "## Cost",
        "",
        _COST,
        "",
        "| text | side | microseconds a text | million characters a second | time to that of `redact` |",
        "| --- | --- | --- | --- | --- |",
        *rows,
    ]


def _over(each: Callable[[str], object], texts: list[str]) -> Callable[[], object]:
    def run() -> None:
        for text in texts:
            each(text)

    return run


if __name__ == "__main__":
    main()
