from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.engine
def test_the_fast_engine_says_the_same_as_the_original(engine, genuine_games, made_games, tmp_path):
    # The original takes seconds for a big kitchen: the smallest of each origin.
    genuine = sorted(genuine_games, key=lambda game: game.path.stat().st_size)
    made = sorted(made_games, key=lambda game: game.path.stat().st_size)
    for game in (genuine[0], made[0]):
        shutil.copytree(game.path.parent, tmp_path / game.id)
    run = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).with_name("comparison.py")),
            str(tmp_path),
            "--games",
            "2",
            "--steps",
            "6",
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert run.returncode == 0, run.stderr
    states, wins = (int(word) for word in run.stdout.split() if word.isdigit())
    assert states >= 2 * 2 * 6
    assert wins >= 1
