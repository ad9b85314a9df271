"""ALFWorld's engine for one process: opens a game and takes commands, one game at a time.

TextWorld keeps state that is global to a process, overwrites ``sys.argv`` and captures standard output. So only the
worker process (:mod:`benchmarks.alfworld.worker`) uses this module; other code uses
:class:`benchmarks.alfworld.pool.EnginePool`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .failures import EngineError
from .games import read_game_data
from .names import number_names


@dataclass(frozen=True, slots=True)
class EngineState:
    """What an agent may see of a game after a command.

    ``feedback`` is the engine's text, ``won`` says whether the goal is reached, and ``admissible`` are the commands
    that would have an effect now, sorted. Facts, walkthroughs and planned commands are never included.
    """

    feedback: str
    won: bool
    admissible: tuple[str, ...]


class Engine:
    """Plays games with ``textworld.envs.PddlEnv`` and ALFWorld's naming rule; opening a game closes the one before."""

    def __init__(self) -> None:
        import textworld  # noqa: PLC0415 - takes half a second and is an optional dependency
        from textworld.envs import PddlEnv  # noqa: PLC0415

        self._environment: Any = PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True))
        self._open = False

    def open(self, path: Path) -> EngineState:
        """Start the game in ``path`` from its beginning; the feedback is its opening.

        Raises :class:`~benchmarks.alfworld.failures.GameFileError` if the file is no game. Any other exception comes
        from the engine, which can't read the PDDL or grammar of the game.
        """
        return self.begin(read_game_data(path))

    def begin(self, data: Mapping[str, str]) -> EngineState:
        """Start a game that was read by :func:`~benchmarks.alfworld.games.read_game_data`."""
        self._open = False
        self._environment.load(dict(data))
        infos = self._environment._entity_infos  # noqa: SLF001 - ALFWorld's own wrapper renames here too
        names = number_names(info.id for info in infos.values())
        for info in infos.values():
            info.name = names[info.id]
        state = self._environment.reset()
        self._open = True
        return _visible(state)

    def step(self, command: str) -> EngineState:
        """Give one command. The feedback to a command that is not admissible is "Nothing happens."."""
        if not self._open:
            raise EngineError(f"no game is open for the command {command!r}; open one first")
        state, _, _ = self._environment.step(command)
        return _visible(state)


def _visible(state: Mapping[str, Any]) -> EngineState:
    return EngineState(
        feedback=str(state["feedback"]),
        won=bool(state["won"]),
        admissible=tuple(str(command) for command in state["admissible_commands"]),
    )
