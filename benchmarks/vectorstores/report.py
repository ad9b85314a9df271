"""What a run found, as JSON for machines and Markdown for people."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Final

from benchmarks.report import machine, table
from benchmarks.vectorstores.lines import Amount, Run
from benchmarks.vectorstores.vectors import DIM, MEMBERS
from jeeves_reflexion.types import JSON

STALL: Final = 0.020
"""Seconds that the loop may stall over an idle one, at the 99th percentile."""


def figures(run: Run, command: str) -> dict[str, JSON]:
    """Return a run as JSON, each repetition's value included."""
    return {
        "command": command,
        "machine": _machine(),
        "versions": dict(run.versions),
        "settings": asdict(run.settings),
        "left_out": list(run.left_out),
        "lines": [
            {
                **asdict(line),
                **{name: _amount(getattr(line, name)) for name in ("found", "ours", "beside")},
                "met": line.met,
            }
            for line in run.lines
        ],
        "event_loop": [
            {**asdict(stall), "over_idle": stall.over_idle, "met": stall.over_idle <= STALL}
            for stall in run.stalls
        ],
    }


def _amount(amount: Amount | None) -> JSON:
    if amount is None:
        return None
    figure = amount.figure
    return {
        "median": figure.value,
        "low": figure.low,
        "high": figure.high,
        "each": list(figure.each),
        "unit": amount.unit,
    }


def page(run: Run, command: str) -> str:
    """Return a run as part of a page, from a second heading on."""
    judged = [line.met for line in run.lines if line.met is not None]
    judged += [stall.over_idle <= STALL for stall in run.stalls]
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    parts = [
        "## The stores beside bare engines",
        (
            f"Measured by `{command}` on {_machine()}. Vectors are of dimension {DIM}, in clusters of about "
            f"{MEMBERS} around random centres, with metadata as lessons have it. All sides of a line take turns in "
            f"one run: {run.settings.repetitions} repetitions of {run.settings.calls} calls each. A time is the "
            "median over the repetitions of their median; in brackets a 95 % interval for it (bootstrap). Ratios "
            f"are taken between neighbours in time. {sum(judged)} of {len(judged)} bounds are met."
        ),
        _lines(run),
        *_stalls(run),
        *(["Left out of this run:", "\n".join(f"- {each}" for each in run.left_out)] if run.left_out else []),
        f"Versions: {versions}.",
    ]
    return "\n\n".join(parts) + "\n"


def _lines(run: Run) -> str:
    rows = [
        (
            line.section,
            line.what,
            line.ours or "",
            f"{line.beside} ({line.against})" if line.beside else "",
            f"{line.found}{f'; {line.note}' if line.note else ''}",
            line.bound.text(line.found.unit) if line.bound else "",
            _verdict(line.met),
        )
        for line in run.lines
    ]
    return table(["store", "what", "ours", "beside it", "found", "bound", "met"], rows)


def _stalls(run: Run) -> list[str]:
    if not run.stalls:
        return []
    rows = [
        (
            stall.name,
            *(f"{each * 1e3:.2f}" for each in (stall.busy, stall.idle, stall.over_idle)),
            f"{stall.longest * 1e3:.1f}",
            _verdict(stall.over_idle <= STALL),
        )
        for stall in run.stalls
    ]
    return [
        (
            "How long a callback that falls due on the event loop waits while the store works (99 % of them, "
            f"and the longest), over an idle loop in windows that alternate; the bound is {STALL * 1e3:g} ms. "
            "What was in memory before a window is kept out of the sweeps of Python's garbage collector "
            "(`gc.freeze`):"
        ),
        table(["during", "p99, ms", "idle p99, ms", "over idle, ms", "longest, ms", "met"], rows),
    ]


def _verdict(met: bool | None) -> str:  # noqa: FBT001 - three answers to one question
    return {True: "yes", False: "**no**", None: ""}[met]


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{machine()}, {memory:.0f} GB"
