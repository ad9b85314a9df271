"""Arithmetic reports: lines with totals, averages and rankings that must agree with a table."""

from __future__ import annotations

import random
import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from .problem import Problem, Requirement, State, broken_in, prompt_of, some_of

FAMILY = "reports"

_PLACES = ("Aarhus", "Bergen", "Cadiz", "Dresden", "Esbjerg", "Ferrara", "Ghent", "Haarlem")
_FIGURES = ("Visitors", "Loans", "Bookings", "Repairs")
_LIMIT = 50


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the report: its label, what it says, what is right, and something wrong."""

    name: str
    label: str
    meaning: str
    right: str
    wrong: str

    @property
    def requirement(self) -> Requirement:
        return Requirement(
            self.name,
            f'A line "{self.label}: ..." gives {self.meaning}.',
            lambda text: _said(text, self.label) == _plain(self.right),
        )


def make(name: str, chance: random.Random) -> Problem:
    """Make a table to report on."""
    places = chance.sample(
        _PLACES, chance.randint(5, 6)
    )  # of 4, an average could end in 5 at the second decimal
    now = dict(zip(places, chance.sample(range(10, 99), len(places)), strict=True))
    before = {place: chance.randint(10, 98) for place in places}
    figure = chance.choice(_FIGURES)
    lines = _lines(now, before)
    requirements = some_of([line.requirement for line in lines], chance)
    wanted = [line for line in lines if line.name in {one.name for one in requirements}]
    opening = (
        f'Write a report on the table below: a first line "{figure} by place", then one line for each figure asked '
        "for, each of the form Label: value. Answer with the report alone."
    )
    table = "\n".join(
        ["place | last year | this year", *(f"{place} | {before[place]} | {now[place]}" for place in places)]
    )

    def write(state: State) -> str:
        broken = broken_in(requirements, state)
        said = (f"{line.label}: {line.wrong if line.name in broken else line.right}" for line in wanted)
        return "\n".join([f"{figure} by place", *said])

    return Problem(name, FAMILY, prompt_of(opening, requirements, table), requirements, write)


def _lines(now: Mapping[str, int], before: Mapping[str, int]) -> list[_Line]:
    total, ranked = sum(now.values()), sorted(now, key=lambda place: -now[place])
    average, median = total / len(now), statistics.median(now.values())
    above = sum(value > _LIMIT for value in now.values())
    grown = sorted(place for place in now if now[place] > before[place])
    swapped = [ranked[1], ranked[0], *ranked[2:]]
    share = 100 * now[ranked[0]] / total
    some, none = ", ".join(grown) or "none", "none" if grown else ranked[0]
    return [
        _Line("total", "Total", "the sum of this year's figures", str(total), str(total + 10)),
        _Line(
            "average",
            "Average",
            "the mean of this year's figures with one decimal",
            f"{average:.1f}",
            f"{average + 1:.1f}",
        ),
        _Line("highest", "Highest", "the place with this year's highest figure", ranked[0], ranked[1]),
        _Line("lowest", "Lowest", "the place with this year's lowest figure", ranked[-1], ranked[-2]),
        _Line(
            "ranking",
            "Ranking",
            "the places from this year's highest figure to the lowest, with commas",
            ", ".join(ranked),
            ", ".join(swapped),
        ),
        _Line(
            "above",
            f"Above {_LIMIT}",
            f"how many places have more than {_LIMIT} this year",
            str(above),
            str(above + 1),
        ),
        _Line(
            "change",
            "Change",
            "this year's sum less last year's, with its sign (+0 where they are equal)",
            f"{total - sum(before.values()):+d}",
            f"{total - sum(before.values()) + 9:+d}",
        ),
        _Line(
            "median",
            "Median",
            "the median of this year's figures with one decimal",
            f"{median:.1f}",
            f"{median + 2:.1f}",
        ),
        _Line(
            "share",
            "Share",
            "the highest place's part of this year's sum in per cent, rounded to a whole number",
            f"{int(share + 0.5)}",
            f"{int(share + 5.5)}",
        ),
        _Line(
            "grown",
            "Grown",
            "the places that grew, in the order of the alphabet, with commas, or none",
            some,
            none,
        ),
    ]


def _said(text: str, label: str) -> str | None:
    """Return what the one line with a label says; None where there is no such line, or more than one."""
    found = re.findall(
        rf"^[ \t>*-]*{re.escape(label)}[ \t*]*:[ \t*]*(.*?)[ \t*]*$", text, re.MULTILINE | re.IGNORECASE
    )
    return _plain(found[0]) if len(found) == 1 else None


def _plain(value: str) -> str:
    return re.sub(r"\s+", " ", value).strip(" .%").casefold()
