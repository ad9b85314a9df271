"""Games for experiments that play them: those that the tests of the benchmarks make, too, once for the whole run."""

from __future__ import annotations

from pathlib import Path

import anyio
import filelock
import pytest

from benchmarks.alfworld.generator import generate_games
from benchmarks.alfworld.requirements import require_engine
from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError


@pytest.fixture(scope="session")
def made_folder(folder_of_all_workers: Path) -> Path:
    """The folder of made games; skips unless the engine can run here."""
    try:
        require_engine()
    except (ConfigurationError, MissingDependencyError) as error:
        pytest.skip(str(error))
    return folder_of_all_workers / "made-games"


@pytest.fixture(scope="session")
def made_games(made_folder: Path) -> None:
    """See to it that there are two games."""
    with filelock.FileLock(made_folder.with_suffix(".lock"), timeout=150):
        anyio.run(lambda: generate_games(made_folder, count=2, seed=0))
