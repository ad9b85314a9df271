"""The page of the retrieval benchmark, written from what was found."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from string import Template
from typing import Any, Final

from benchmarks.lessons.retrieval_figures import shares
from benchmarks.lessons.retrieval_play import Outcome
from benchmarks.lessons.retrieval_ways import DEFAULT
from jeeves_reflexion.statistics import wilson

_PAGE: Final = Path(__file__).with_name("retrieval.md")
_FIGURES: Final = ("nDCG@5", "recall@1", "recall@5", "MRR", "precision", "empty")
_NOT_RUN: Final = "(not run)"
_STRANGERS: Final = {
    "question > household": "questions, household lessons",
    "program > household": "programming, household lessons",
    "household > questions": "descriptions, lessons on questions",
    "program > questions": "programming, lessons on questions",
    "described > nothing relevant": "descriptions for which no household lesson is relevant",
}

Row = Mapping[str, Any]


def play_rows(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return what was won in each way, with Wilson intervals and paired differences from the default."""
    beside = {
        each.others: each for each in outcomes if each.way is not None and each.way.name == DEFAULT.name
    }
    return [_played(each, beside[each.others]) for each in outcomes]


def page(known: Mapping[str, Any]) -> str:
    """Return the page; parts that were not run are named as such."""
    found, played = known.get("set"), known.get("play")
    return Template(_PAGE.read_text(encoding="utf-8")).substitute(
        embedder=known["embedder"],
        sizes=_sizes(found) if found else _NOT_RUN,
        held_out=_ways(found["held out"]) if found else _NOT_RUN,
        described=_ways(found["described"]) if found else _NOT_RUN,
        questions=_ways(found["questions"]) if found else _NOT_RUN,
        likeness=_likeness(found) if found else _NOT_RUN,
        pools=_ways(found["pool"]) if found else _NOT_RUN,
        floors=_floors(found["floors"]) if found else _NOT_RUN,
        strangers=_strangers(found["floors"]) if found else _NOT_RUN,
        words=_words(known["words"]) if known.get("words") else _NOT_RUN,
        how_played=_how(played) if played else _NOT_RUN,
        played=_plays(played["rows"]) if played else _NOT_RUN,
    )


def _played(outcome: Outcome, beside: Outcome) -> dict[str, Any]:
    share = wilson(outcome.solved, outcome.games)
    again = sum(map(len, outcome.won.values()))
    # Of all games: those solved at the first try are the same in all ways, and no difference.
    part = again / outcome.games
    return {
        "way": outcome.way.name if outcome.way else "no memory",
        "others": outcome.others,
        "again": again,
        "solved": [share.successes, share.n, share.low, share.high],
        "difference": [part * each for each in asdict(shares(outcome.won, beside.won)).values()],
        "offered": outcome.offered,
        "empty": outcome.empty,
    }


def _sizes(found: Row) -> str:
    sizes = found["sizes"]
    held_out, described = found["held out"][0], found["described"][0]
    return (
        f"{sizes['lessons']} distinct reflections on {sizes['goals']} different tasks ({found['refused']} refused by "
        f"the gate); {sizes['held_out']} tasks of the log, {held_out['answerable']} of which have something relevant "
        f"in the rest; {sizes['described']} descriptions of {sizes['described_goals']} tasks, "
        f"{described['answerable']} of which have; {sizes['questions']} questions with {sizes['answers']} "
        f"reflections; {sizes['programs']} programming tasks. The set took {found['minutes']:.0f} minutes"
    )


def _ways(rows: Sequence[Row]) -> str:
    heads = ["way", "nDCG@5", "beside the default", *_FIGURES[1:]]
    lines = _head(heads)
    for row in rows:
        figures, apart = row["figures"], row["difference"]["nDCG@5"]
        default = row["way"] == DEFAULT.name
        cells = [_cell(figures["nDCG@5"]), "" if default else _apart(apart)]
        lines.append(_line(row["way"], *cells, *(_short(figures[name]) for name in _FIGURES[1:])))
    return "\n".join(lines)


def _likeness(found: Row) -> str:
    lines = _head(["library", "way", "nDCG@5", "precision", "pairs much alike", "tasks they come from"])
    for name, label in (("likeness", "as written"), ("likeness, merged", f"merged to {found['merged']}")):
        for row in found[name]:
            figures = row["figures"]
            cells = (_cell(figures["nDCG@5"]), _short(figures["precision"]))
            lines.append(_line(label, row["way"], *cells, f"{row['alike']:.0%}", f"{row['tasks']:.2f}"))
    return "\n".join(lines)


def _floors(rows: Sequence[Row]) -> str:
    lines = _head(
        ["floor"]
        + [
            f"{name}: {what}"
            for name in ("log", "described", "questions")
            for what in ("nDCG@5", "precision", "empty")
        ]
    )
    for row in rows:
        cells = [
            _short(row[name][what])
            for name in ("held_out", "described", "questions")
            for what in ("nDCG@5", "precision", "empty")
        ]
        lines.append(_line(_floor(row), *cells))
    return "\n".join(lines)


def _strangers(rows: Sequence[Row]) -> str:
    names = [name for name in _STRANGERS if name in rows[0]]
    lines = _head(["floor", *(_STRANGERS[name] for name in names)])
    for row in rows:
        lines.append(
            _line(_floor(row), *(f"{a:.1%} ({b:.1%} to {c:.1%})" for a, b, c in (row[n] for n in names)))
        )
    return "\n".join(lines)


def _words(rows: Sequence[Row]) -> str:
    lines = _head(["peer", "texts", "queries", "same scores", "ours, a query", "theirs", "ours / theirs"])
    for row in rows:
        same = f"{row['equal']} of {row['queries']}" if row["peer"] == "bm25s" else "another idf"
        times = [f"{1000 * row[whose]:.2f} ms" for whose in ("ours", "theirs")]
        ratio = f"{row['ours'] / row['theirs']:.2f}"
        lines.append(_line(row["peer"], str(row["texts"]), str(row["queries"]), same, *times, ratio))
    return "\n".join(lines)


def _how(played: Row) -> str:
    seeds = ", ".join(map(str, played["seeds"]))
    return (
        f"{played['games']} made games (game seed {played['game_seed']}), player seeds {seeds}; {played['attempts']} "
        f"different attempts in the engine, {played['minutes']:.0f} minutes"
    )


def _plays(rows: Sequence[Row]) -> str:
    lines = _head(
        ["way", "lessons of", "solved by the second try", "beside the default", "lessons offered", "none"]
    )
    for row in rows:
        solved, n, low, high = row["solved"]
        whose = "nobody" if row["way"] == "no memory" else "others" if row["others"] else "all"
        apart = "" if row["way"] == DEFAULT.name else _points(row["difference"])
        share = f"{solved}/{n} = {solved / n:.0%} ({low:.0%} to {high:.0%})"
        lines.append(_line(row["way"], whose, share, apart, f"{row['offered']:.2f}", f"{row['empty']:.0%}"))
    return "\n".join(lines)


def _floor(row: Row) -> str:
    return "none" if row["floor"] < 0 else f"{row['floor']:.1f}"


def _cell(figure: Sequence[float]) -> str:
    return _known(figure, lambda: f"{figure[0]:.3f} ({figure[1]:.3f} to {figure[2]:.3f})")


def _short(figure: Sequence[float]) -> str:
    return _known(figure, lambda: f"{figure[0]:.3f}")


def _apart(figure: Sequence[float]) -> str:
    if not any(figure):
        return "the same"
    return _known(figure, lambda: f"{figure[0]:+.3f} ({figure[1]:+.3f} to {figure[2]:+.3f})")


def _points(figure: Sequence[float]) -> str:
    if not any(figure):
        return "no game differed"
    return f"{100 * figure[0]:+.1f} points ({100 * figure[1]:+.1f} to {100 * figure[2]:+.1f})"


def _known(figure: Sequence[float], text: Callable[[], str]) -> str:
    return "-" if math.isnan(figure[0]) else text()


def _head(cells: Sequence[str]) -> list[str]:
    return [_line(*cells), "| --- " * len(cells) + "|"]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
