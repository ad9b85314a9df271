"""What the runs came to, as JSON for machines and Markdown for people."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks.faults.rounds import WRITERS, Outcome
from vectorstores import JSON

_COLUMNS: Final = {
    "rounds": "rounds",
    "killed": "processes killed",
    "calls": "calls acknowledged",
    "items": "chunks and records left by them",
    "kept": "unacknowledged calls found whole",
    "searched": "chunks searched by vector",
    "lost": "**lost**",
    "torn": "**torn**",
    "wrong": "**wrong answers**",
    "seconds": "seconds",
}


def as_json(outcome: Outcome, command: str) -> dict[str, JSON]:
    """Return an outcome as JSON."""
    verdict = outcome.verdict
    return {
        "command": command,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "rounds": outcome.rounds,
        "killed": outcome.killed,
        "refused": outcome.refused,
        "reasons": list(outcome.reasons),
        "calls": verdict.calls,
        "items": verdict.items,
        "kept": verdict.kept,
        "searched": verdict.searched,
        "lost": verdict.lost,
        "torn": verdict.torn,
        "wrong": verdict.wrong,
        "seconds": round(outcome.seconds),
        "notes": list(verdict.notes[:20]),
    }


def write(path: Path, name: str, result: Mapping[str, JSON]) -> str:
    """Put a result into the JSON file under its name, beside those that are there; return the page of all,
    which is written to the ``.md`` of the same name.
    """
    results: dict[str, Mapping[str, JSON]] = {}
    if path.exists():
        results = json.loads(path.read_text(encoding="utf-8"))
    results[name] = result
    page = as_markdown(results)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(page, encoding="utf-8")
    return page


def as_markdown(results: Mapping[str, Mapping[str, JSON]]) -> str:
    """Return results as a page."""
    lines = [
        "# Killed while writing",
        "",
        (
            f"In each round {WRITERS} processes write to one store, three streams each: chunks alone and in batches "
            "with records beside them, replacements, updates, deletions, records appended and swapped, a counter and "
            "races in which all take part. At a random moment they are killed (`kill -9`): all at once, one by one, "
            "some while the others go on, or while they still open the store. Then the store is opened and held "
            "against the calls that had been acknowledged."
        ),
        "",
        (
            "*Lost*: a chunk or record of an acknowledged call that is missing or different, or a deleted one that is "
            "back. *Torn*: a call found carried out in part. *Wrong*: count, scan and search contradict each other, a "
            "chunk is not found by its own vector, or a call returned what it should not."
        ),
        "",
        f"| store | {' | '.join(_COLUMNS.values())} |",
        f"| --- |{' --- |' * len(_COLUMNS)}",
        *(
            f"| {name} | {' | '.join(f'{result[key]:,}' for key in _COLUMNS)} |"
            for name, result in results.items()
        ),
        "",
    ]
    for name, result in results.items():
        lines.append(f"- {name}: `{result['command']}` on {result['machine']}")
        if result["refused"]:
            lines.append(f"  ({result['refused']} calls were refused while there was no server)")
            reasons = result.get("reasons", [])
            lines += [f"  - refused: {reason}" for reason in reasons] if isinstance(reasons, list) else []
        notes = result["notes"]
        lines += [f"  - {note}" for note in notes] if isinstance(notes, list) else []
    return "\n".join(lines) + "\n"
