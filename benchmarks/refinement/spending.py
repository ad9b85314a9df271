"""What tokens buy: the loop beside controls, and thorough judging beside cheap judging (question 7.4 of seed 001)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.refinement.arms import Arm, ArmJob, records_of_arm
from benchmarks.refinement.outcome import Outcome, first_drafts, outcome_of, qualities
from benchmarks.refinement.rates import Rates, at
from benchmarks.refinement.spread import Spread
from benchmarks.refinement.tasks import Key

CONTROL_ERRORS = (0.02, 0.05, 0.1, 0.2, 0.3)
"""Where the loop is held against controls: judge and reviser are equally often wrong."""

SPENDING_ERROR = 0.1
"""Where ways of judging are compared."""

MOST_REVISIONS = 5
PANELS = (1, 3, 5)
WORSE = (0.15, 0.2)
"""What the judge's error might be when it is asked about all criteria at once: nobody knows."""

LOOP = Arm("loop, default checks")
ALWAYS = (
    Arm("3 revisions always, the last returned", always=True, selection="latest"),
    Arm("3 revisions always, the best returned", always=True),
)


@dataclass(frozen=True, slots=True)
class Control:
    """The loop and its controls at one error; differences are to the loop."""

    error: float
    outcomes: tuple[Outcome, ...]


def controls(keys: Sequence[Key], spread: Spread) -> list[Control]:
    """Run the loop, and two without checks, over the same problems and first drafts."""
    arms = (LOOP, *ALWAYS)
    jobs = [ArmJob(tuple(keys), at(error, error), arm) for error in CONTROL_ERRORS for arm in arms]
    done = list(spread(records_of_arm, jobs))
    found = []
    for place, error in enumerate(CONTROL_ERRORS):
        loop, *others = done[place * len(arms) : (place + 1) * len(arms)]
        base = qualities(loop)
        rows = [outcome_of(arm.name, records, base) for arm, records in zip(ALWAYS, others, strict=True)]
        found.append(Control(error, (first_drafts(loop), outcome_of(LOOP.name, loop), *rows)))
    return found


def thoroughness(keys: Sequence[Key], spread: Spread) -> list[Outcome]:
    """Run the loop with more and less thorough judging; the first row is the default, and differences are to it."""
    rates = at(SPENDING_ERROR, SPENDING_ERROR)
    each, once = "one call for each criterion", "one call for all criteria"
    ways: list[tuple[str, Rates, Arm]] = [
        *((f"{each}, {_seats(n)}", rates, Arm("", panel=n)) for n in PANELS),
        *((f"{once}, {_seats(n)}", rates, Arm("", together=True, panel=n)) for n in PANELS),
        *(
            (f"{each}, {_seats(n)}, whose errors never change", replace(rates, fixed=1.0), Arm("", panel=n))
            for n in PANELS[:2]
        ),
        *(
            (
                f"{once}, if the judge then errs with {error}",
                at(error, SPENDING_ERROR),
                Arm("", together=True),
            )
            for error in WORSE
        ),
        *(
            (f"{each}, max_iterations={n}", rates, Arm("", max_revisions=n))
            for n in range(1, MOST_REVISIONS + 1)
        ),
    ]
    done = list(spread(records_of_arm, [ArmJob(tuple(keys), rates, arm) for _, rates, arm in ways]))
    base = qualities(done[0])
    return [outcome_of(name, records, base) for (name, _, _), records in zip(ways, done, strict=True)]


def _seats(panel: int) -> str:
    return "one judge" if panel == 1 else f"a panel of {panel}"
