"""Games to play: genuine ones from the shared data."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from benchmarks.alfworld.games import Game, load_games

GENUINE = Path(__file__).parents[4] / "shared" / "data" / "alfworld" / "valid_seen_140.tar.xz"


@pytest.fixture(scope="session")
def genuine_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ALFWorld's 140 games of valid_seen, unpacked."""
    if not GENUINE.is_file():
        pytest.skip(f"the genuine games are not there: {GENUINE}")
    folder = tmp_path_factory.mktemp("genuine")
    with tarfile.open(GENUINE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="session")
def genuine_games(genuine_folder: Path) -> list[Game]:
    return load_games(genuine_folder)
