"""Attempts of the harm benchmark that are kept in a file, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.alfworld.agent import WON
from benchmarks.alfworld.experiment import STEP_LIMIT
from jeeves_reflexion import Attempt, Step

Play: TypeAlias = tuple[int, str, str]
"""What decides an attempt: the seed of the search, the task, and the block of lessons."""

_NAME: Final = f"attempts-{STEP_LIMIT}.jsonl"


class Kept:
    """Attempts in a folder's file, a line each; a last line that was cut short is passed over.

    They hold for one version of games, engine and player: for another, take another folder.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / _NAME
        self.attempts: dict[Play, Attempt] = {}
        if not self._file.exists():
            folder.mkdir(parents=True, exist_ok=True)
            return
        whole, end, _ = self._file.read_bytes().rpartition(b"\n")
        for line in whole.splitlines():
            seed, task_id, block, won, steps = json.loads(line)
            self.attempts[seed, task_id, block] = Attempt(
                steps=tuple(Step(*each) for each in steps), metadata={WON: won}
            )
        with self._file.open("rb+") as file:
            file.truncate(len(whole) + len(end))

    def keep(self, play: Play, attempt: Attempt) -> None:
        """Add an attempt; of one that an error ended nothing is kept."""
        if attempt.error is not None:
            return
        steps = [[each.thought, each.action, each.observation] for each in attempt.steps]
        line = json.dumps([*play, bool(attempt.metadata[WON]), steps])
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
