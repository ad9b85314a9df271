"""What a run found, as JSON for machines and Markdown for people."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.vectorstores.lines import Amount, Line, PeerLine, Run
from benchmarks.vectorstores.measure import Stall
from benchmarks.vectorstores.vectors import DIM, MEMBERS
from jeeves_reflexion.types import JSON

STALL: Final = 0.020
"""Seconds that the loop may stall over an idle one, at the 99th percentile."""


@dataclass(frozen=True, slots=True)
class Report:
    """A finished run and the command that repeats it."""

    run: Run
    command: str

    def as_json(self) -> dict[str, JSON]:
        """Return it as JSON, each repetition's value included."""
        run = self.run
        settings: dict[str, JSON] = asdict(run.settings)
        return {
            "command": self.command,
            "machine": machine(),
            "versions": dict(run.versions),
            "settings": settings,
            "left_out": list(run.left_out),
            "lines": [_line(line) for line in run.lines],
            "event_loop": [
                {**asdict(stall), "over_idle": stall.over_idle, "met": stall.over_idle <= STALL}
                for stall in run.stalls
            ],
            "peers": [{**asdict(line), "amount": _amount(line.amount)} for line in run.peer_lines],
        }

    def as_markdown(self) -> str:
        """Return it as part of a page, from a second heading on."""
        run = self.run
        judged = [line.met for line in run.lines if line.met is not None]
        judged += [stall.over_idle <= STALL for stall in run.stalls]
        lines = [
            "## The stores beside bare engines and other stores",
            "",
            (
                f"Measured by `{self.command}` on {machine()}. Vectors are of dimension {DIM}, in clusters of about "
                f"{MEMBERS} around random centres, with metadata as lessons have it. All sides of a line take turns in "
                f"one run: {run.settings.repetitions} repetitions of {run.settings.calls} calls each. A time is the "
                "median over the repetitions of their median; in brackets a 95 % interval for it (bootstrap). Ratios "
                f"are taken between neighbours in time. {sum(judged)} of {len(judged)} bounds are met."
            ),
            "",
            *self._table(),
            *self._stalls(),
            *self._peers(),
        ]
        if run.left_out:
            lines += ["", "Left out of this run:", "", *(f"- {reason}" for reason in run.left_out)]
        versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
        return "\n".join([*lines, "", f"Versions: {versions}."]) + "\n"

    def _table(self) -> list[str]:
        rows = [
            "| store | what | ours | beside it | found | bound | met |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for line in self.run.lines:
            beside = f"{line.beside} ({line.against})" if line.beside else ""
            note = f"; {line.note}" if line.note else ""
            bound = line.bound.text(line.found.unit) if line.bound else ""
            rows.append(
                f"| {line.section} | {line.what} | {line.ours or ''} | {beside} | {line.found}{note} | {bound} |"
                f" {_verdict(line.met)} |"
            )
        return rows

    def _stalls(self) -> list[str]:
        stalls: Sequence[Stall] = self.run.stalls
        if not stalls:
            return []
        return [
            "",
            (
                "How long a callback that falls due on the event loop waits while the store works (99 % of them, "
                f"and the longest), over an idle loop in windows that alternate; the bound is {STALL * 1e3:g} ms. "
                "What was in memory before a window is kept out of the sweeps of Python's garbage collector "
                "(`gc.freeze`):"
            ),
            "",
            "| during | p99, ms | idle p99, ms | over idle, ms | longest, ms | met |",
            "| --- | --- | --- | --- | --- | --- |",
            *(
                f"| {stall.name} | {stall.busy * 1e3:.2f} | {stall.idle * 1e3:.2f} | {stall.over_idle * 1e3:.2f} |"
                f" {stall.longest * 1e3:.1f} | {_verdict(stall.over_idle <= STALL)} |"
                for stall in stalls
            ),
        ]

    def _peers(self) -> list[str]:
        if not self.run.peer_lines:
            return []
        return [
            "",
            (
                "Other stores with their defaults, each in a process of its own, taking turns with ours in this run. "
                "jeevesagent's FAISS store keeps nothing on disk; lancedb (no index made) and qdrant-client (without a "
                "server) search exactly."
            ),
            "",
            "| what | store | median | recall@5 | note |",
            "| --- | --- | --- | --- | --- |",
            *(_peer(line) for line in self.run.peer_lines),
        ]


def _peer(line: PeerLine) -> str:
    share = "" if line.recall is None else f"{line.recall:.4f}"
    return f"| {line.what} | {line.store} | {line.amount} | {share} | {line.note} |"


def _line(line: Line) -> dict[str, JSON]:
    return {
        "section": line.section,
        "what": line.what,
        "found": _amount(line.found),
        "bound": None if line.bound is None else {"kind": line.bound.kind, "limit": line.bound.limit},
        "met": line.met,
        "ours": None if line.ours is None else _amount(line.ours),
        "beside": None if line.beside is None else _amount(line.beside),
        "against": line.against,
        "note": line.note,
    }


def _amount(amount: Amount) -> dict[str, JSON]:
    figure = amount.figure
    return {
        "median": figure.value,
        "low": figure.low,
        "high": figure.high,
        "each": list(figure.each),
        "unit": amount.unit,
    }


def _verdict(met: bool | None) -> str:  # noqa: FBT001 - three answers to one question
    return {True: "yes", False: "**no**", None: ""}[met]


def machine() -> str:
    """Describe the machine in a few words: Python, system, cores, memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()} ({_processor()}), "
        f"{os.cpu_count()} cores, {memory:.0f} GB"
    )


def _processor() -> str:
    try:
        about = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return "processor unknown"
    names = [line.partition(":")[2].strip() for line in about.splitlines() if line.startswith("model name")]
    return names[0] if names else "processor unknown"
