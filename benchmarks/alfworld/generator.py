"""Makes ALFWorld games of the six kinds, and wins each in the engine to prove it.

A game depends only on the seed and its number: the first 24 of 134 games equal 24 games made by themselves, on any
machine with the same version of the ``alfworld`` package.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count as numbers
from pathlib import Path
from typing import Final

import anyio

from jeeves_reflexion.errors import ConfigurationError

from ..runs import some_at_a_time
from .errands import Errand, choose_errand, plan_errand
from .failures import GenerationError
from .games import GAME_FILE, KINDS, TRAJECTORY_FILE, Game
from .names import number_names
from .placement import place_things
from .pool import EnginePool
from .problem import entity_ids, game_file, trajectory_file
from .rooms import Room, build_rooms
from .wheel import Wheel, read_wheel

GENERATOR_VERSION: Final = 1  # to be raised when the same seed would give other files

# How many of 134 games are of each kind, as in ALFWorld's valid_unseen split.
MIX: Final = dict(zip(KINDS, (24, 18, 31, 23, 21, 17), strict=True))

_DRAWS: Final = 200  # attempts to draw a room, a task and a placement that fit together
_TRIES: Final = 5  # games made for one number before giving up; the engine has refused none so far

Progress = Callable[[int, int], None]
"""Called after each game with the number of games ready and the number asked for."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A game that is not proved yet: the texts of its files and the commands that should win it."""

    errand: Errand
    folder: Path
    game: str
    trajectory: str
    plan: tuple[str, ...]


async def generate_games(
    folder: Path | str, *, count: int = 134, seed: int = 0, workers: int = 2, progress: Progress | None = None
) -> list[Game]:
    """Return ``count`` games in the order of their numbers; those that are missing under ``folder`` or differ are made.

    The layout is that of ``alfworld-download``, with a folder per seed instead of a split. A game is won in the engine
    by its own plan before its file gets its name. ``workers`` processes play at a time, and ``progress`` is called
    after each game.

    Raises :class:`~jeeves_reflexion.errors.ConfigurationError` for a ``count`` below 1,
    :class:`~jeeves_reflexion.errors.MissingDependencyError` without the extra ``alfworld``, and
    :class:`~benchmarks.alfworld.failures.GenerationError` if a game can't be won.
    """
    if count < 1:
        raise ConfigurationError(f"count must be at least 1, not {count}")
    maker = await anyio.to_thread.run_sync(_Maker, Path(folder), seed)
    return await maker.make_all(count, workers, progress)


def kinds(count: int) -> list[str]:
    """Return the kinds of the first ``count`` games, close to the shares in :data:`MIX` for every count."""
    total = sum(MIX.values())
    sequence: list[str] = []
    for made in range(1, count + 1):
        sequence.append(max(MIX, key=lambda kind: MIX[kind] * made - sequence.count(kind) * total))
    return sequence


class _Maker:
    """Makes the games of one seed in one folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._seed = seed
        self._wheel: Wheel = read_wheel()
        # Another version of the generator or of alfworld makes other files, in another folder.
        split = f"generated_v{GENERATOR_VERSION}_alfworld{self._wheel.version}_seed{seed}"
        self._root = folder / "json_2.1.1" / split
        self._rooms: list[Room] = build_rooms(self._wheel)

    async def make_all(self, count: int, workers: int, progress: Progress | None) -> list[Game]:
        """Write and prove the games with the numbers below ``count``, several at a time."""
        made = numbers(1)
        async with EnginePool(workers) as pool:

            async def make(number: int, kind: str) -> Game:
                game = await self._make(number, kind, pool)
                if progress is not None:
                    progress(next(made), count)
                return game

            calls = [partial(make, number, kind) for number, kind in enumerate(kinds(count))]
            return await some_at_a_time(calls, workers)

    async def _make(self, number: int, kind: str, pool: EnginePool) -> Game:
        for attempt in range(_TRIES):
            draft = await anyio.to_thread.run_sync(self._draft, number, kind, attempt)
            game = _game(draft)
            if await anyio.to_thread.run_sync(_is_there, draft):
                return game
            unproved = await anyio.to_thread.run_sync(_write_unproved, draft)
            try:
                if await _wins(pool, replace(game, path=unproved), draft.plan):
                    await anyio.to_thread.run_sync(_write, draft)
                    return game
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(_remove, unproved)
        raise GenerationError(
            f"game {number} of seed {self._seed} ({kind}) could not be won by its plan in {_TRIES} tries; "
            f"report this with alfworld's version, {self._wheel.version}"
        )

    def _draft(self, number: int, kind: str, attempt: int) -> _Draft:
        # The seed is a text: the hash of a tuple would depend on the interpreter's hash seed.
        rng = random.Random(f"alfworld game {self._seed}/{number}/{attempt}")
        for _ in range(_DRAWS):
            errand = choose_errand(kind, self._rooms, self._wheel, rng)
            if errand is None:
                continue
            things = place_things(
                errand.room,
                self._wheel,
                rng,
                target=errand.object_type,
                at_least=errand.things_needed,
                not_in=errand.receptacle_type,
            )
            if things is None:
                continue
            target = errand.receptacle_type or errand.lamp_type
            task = f"{kind}-{errand.object_type}-None-{target}-{errand.room.plan}"
            name = f"trial_S{self._seed}_{number:04d}"
            plan = plan_errand(errand, things, number_names(entity_ids(errand.room, things)))
            return _Draft(
                errand=errand,
                folder=self._root / task / name,
                game=game_file(name, errand, things, plan, self._wheel),
                trajectory=trajectory_file(name, errand),
                plan=tuple(plan),
            )
        raise GenerationError(
            f"game {number} of seed {self._seed}: no room fits a task {kind} in {_DRAWS} draws"
        )


def _game(draft: _Draft) -> Game:
    folder = draft.folder
    return Game(
        f"{folder.parent.name}/{folder.name}",
        draft.errand.kind,
        folder / GAME_FILE,
        f"{draft.errand.sentence}.",
    )


async def _wins(pool: EnginePool, game: Game, plan: tuple[str, ...]) -> bool:
    """Return whether the plan wins, and not before its last command."""
    async with pool.episode(game) as episode:
        for command in plan:
            if episode.won:
                return False
            await episode.step(command)
        return episode.won


def _is_there(draft: _Draft) -> bool:
    """Return whether the files exist with these texts; a file gets its name only after the game was won."""
    texts = {GAME_FILE: draft.game, TRAJECTORY_FILE: draft.trajectory}
    paths = {draft.folder / name: text for name, text in texts.items()}
    return all(path.is_file() and path.read_bytes() == text.encode() for path, text in paths.items())


def _write_unproved(draft: _Draft) -> Path:
    draft.folder.mkdir(parents=True, exist_ok=True)
    # The process id keeps two generators in one folder apart; loaders look for the final name only.
    path = draft.folder / f"{GAME_FILE}.unproved{os.getpid()}"
    path.write_bytes(draft.game.encode())
    return path


def _write(draft: _Draft) -> None:
    _write_whole(draft.folder / TRAJECTORY_FILE, draft.trajectory)
    _write_whole(draft.folder / GAME_FILE, draft.game)


def _write_whole(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part{os.getpid()}")
    try:
        part.write_bytes(text.encode())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
