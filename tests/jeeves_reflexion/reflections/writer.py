"""Writes reflections from a process of its own: python writer.py FOLDER COUNT NAME."""

from __future__ import annotations

import sys
from pathlib import Path

from protocol_parts import TASK, failed, record, source

from jeeves_reflexion.reflections.journal import ReflectionJournal


def main(folder: str, count: int, name: str) -> None:
    journal = ReflectionJournal(Path(folder), keep=10)
    for number in range(count):
        reflection = failed(what_happened=f"{name} {number}")
        record(journal, TASK, reflection, provenance=source("shared", run_id=f"{name}-{number}"))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
