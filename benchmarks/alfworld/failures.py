"""What can go wrong with the games and with the engine that plays them.

::

    ReflexionError
      +  GameFileError            a game's file, or a folder of games, can't be used
      +  EngineError              the engine could not play: it hung, died or refused the game
      +  GenerationError          no game could be made that the engine lets us win
"""

from __future__ import annotations

from jeeves_reflexion.errors import ReflexionError


class GameFileError(ReflexionError):
    """A game's file, or a folder of games, can't be used; the message says which, where and what to do."""


class EngineError(ReflexionError):
    """The engine could not play; the message names the game and the command."""


class GenerationError(ReflexionError):
    """No game could be made that its own plan wins in the engine."""
