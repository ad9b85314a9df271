"""Holds the sped-up engine against TextWorld's own on random walks.

``python tests/benchmarks/alfworld/comparison.py FOLDER --games 20 --steps 50`` plays the same walks with both, each
in a process of its own, and fails at the first difference in feedback, commands or ``won``."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import IO, Final

from benchmarks.alfworld import speedups
from benchmarks.alfworld.engine import Engine
from benchmarks.alfworld.games import load_games

_NONSENSE: Final = "polish the moon"  # every walk meets commands that are not admissible, too
_NONSENSE_SHARE: Final = 0.05


def walk(paths: Sequence[Path], steps: int, seed: int) -> Iterator[dict[str, object]]:
    """Every state of two walks through each game.

    The first walk is random. The second opens the game again, when its translation is cached, and starts with
    the file's own walkthrough where it has one, so that games that are won are compared, too.
    """
    engine = Engine()
    walks = [(path, list[str]()) for path in paths] + [(path, _walkthrough(path)) for path in paths]
    for path, plan in walks:
        rng = random.Random(f"{seed} {path.parent.name}")
        state = engine.open(path)
        command = ""
        for _ in range(steps + len(plan)):
            yield {
                "game": path.parent.name,
                "command": command,
                "text": state.feedback,
                "won": state.won,
                "admissible": state.admissible,
            }
            if plan:
                command = plan.pop(0)
            else:
                command = _NONSENSE if rng.random() < _NONSENSE_SHARE else rng.choice(state.admissible)
            state = engine.step(command)


def _walkthrough(path: Path) -> list[str]:
    plan: list[str] = json.loads(path.read_text(encoding="utf-8")).get("walkthrough") or []
    return plan


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the two; 0 when they agree, 1 when not."""
    options = _options(arguments)
    if options.walk:
        if options.walk == "fast":
            speedups.install()
        for state in walk([Path(path) for path in options.paths], options.steps, options.seed):
            sys.stdout.write(json.dumps(state) + "\n")
        return 0
    games = load_games(options.paths[0])
    chosen = [str(game.path) for game in games[:: max(1, len(games) // options.games)]][: options.games]
    original, fast = (_start(mode, chosen, options) for mode in ("original", "fast"))
    with original, fast:
        return _compare(_pipe(original), _pipe(fast))


def _compare(original: IO[str], fast: IO[str]) -> int:
    states = wins = 0
    for expected, found in zip_longest(original, fast, fillvalue="the walk ended early\n"):
        if expected != found:
            sys.stderr.write(f"state {states} differs\noriginal: {expected}sped up: {found}")
            return 1
        states += 1
        wins += json.loads(found)["won"]
    sys.stdout.write(f"{states} states agree, {wins} of them won\n")
    return 0 if states else 1


def _start(mode: str, paths: Sequence[str], options: argparse.Namespace) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--walk", mode, "--steps", str(options.steps)]
    return subprocess.Popen(
        [*command, "--seed", str(options.seed), *paths],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )


def _pipe(process: subprocess.Popen[str]) -> IO[str]:
    if process.stdout is None:
        raise AssertionError("started with a pipe")
    return process.stdout


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+", help="the folder of games")
    parser.add_argument("--games", type=int, default=10)
    parser.add_argument("--steps", type=int, default=50, help="states of one walk")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--walk", choices=("original", "fast"), help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
