"""What an experiment tells whoever watches it."""

from __future__ import annotations

from jeeves_reflexion.experiments.arms import ArmName
from jeeves_reflexion.experiments.results import Results, Tried


class Watcher:
    """What an experiment tells while it runs; every method may be overridden, none must be."""

    def prepared(self, what: str, done: int, total: int) -> None:
        """Some of what the experiment needs is ready, before its first round."""

    def resumed(self, skipped: str) -> None:
        """The run goes on where it was; ``skipped`` says what is not done again."""

    def round_started(self, arm: ArmName, seed: int, trial: int, todo: int) -> None:
        """A trial of an arm begins with ``todo`` tasks left to solve."""

    def tried(self, row: Tried) -> None:
        """A task was tried."""

    def round_finished(self, arm: ArmName, seed: int, trial: int, results: Results) -> None:
        """A trial of an arm is over and its lessons are stored."""

    def held_out_finished(self, arm: ArmName, seed: int, solved: int, n: int) -> None:
        """An arm tried the ``n`` held-out tasks with what it had learned."""

    def interrupted(self, where: str) -> None:
        """The experiment ends before its time."""

    def close(self) -> None:
        """The experiment is over, in whatever way."""
