"""Makes TextWorld's PDDL engine about thirty times faster, with the same texts.

Without these changes the engine parses its grammar again at every action, copies the whole state of the game with every
symbol, and translates the PDDL four times for each load and reset. The parsers and the translation are pure functions
of their text, so their results are cached. Of a context, only what a derivation changes is copied. The tests compare
the engine with and without these changes.
"""

from __future__ import annotations

import copy
import gc
import pickle  # of this process's own objects, in memory only
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

_PHRASES: Final = 4096  # phrases of a grammar; a game has about 60, nearly all the same in all games
_GAMES: Final = 512  # translated games, about 50 kB each

_GARBAGE: Final = (100_000, 50, 100)  # thresholds of Python's collector, the first one 700 by default

_Translate = Callable[..., tuple[Any, str]]


def install() -> None:
    """Change TextWorld for the rest of this process; another call has no effect.

    Only a worker process calls this: the changes are global, and the engine's planner (``policy_commands``) would
    search in a translation that is not optimised for search.
    """
    import fast_downward  # noqa: PLC0415 - optional dependencies
    from textworld.envs.pddl import logic, textgen  # noqa: PLC0415
    from textworld.logic import Rule  # noqa: PLC0415

    if getattr(textgen, "deepcopy", None) is _copy_symbols:
        return
    textgen.deepcopy = _copy_symbols
    textgen._parse_and_convert = _remembering_phrases(textgen._parse_and_convert)  # noqa: SLF001
    logic._parse_and_convert = lru_cache(_GAMES)(logic._parse_and_convert)  # noqa: SLF001
    Rule.parse_conjunctive_query = staticmethod(lru_cache(_PHRASES)(Rule.parse_conjunctive_query))
    fast_downward.pddl2sas = _remembering_translations(fast_downward.pddl2sas)
    # A translation makes a hundred thousand small objects. With Python's default thresholds the garbage collector takes
    # a third of the time for opening a game.
    gc.freeze()
    gc.set_threshold(*_GARBAGE)


def _copy_symbols(value: Any) -> Any:  # noqa: ANN401 - stands in for deepcopy
    """Replace ``deepcopy`` in textgen, which copies symbols and the two dictionaries of a context.

    A derivation changes the context of a symbol and adds entries to those dictionaries. It never changes the things of
    the game to which they refer, so these are shared.
    """
    if isinstance(value, list):
        return [_copy_symbols(item) for item in value]
    if not hasattr(value, "symbol"):
        return copy.copy(value)
    fresh = copy.copy(value)
    for part in ("symbol", "expression"):
        inner = getattr(fresh, part, None)
        if hasattr(inner, "symbol"):
            setattr(fresh, part, _copy_symbols(inner))
    return fresh


def _remembering_phrases(parse: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    @lru_cache(_PHRASES)
    def parsed(text: str, rule_name: str) -> list[Any]:
        return parse(text, rule_name=rule_name)

    def parse_once(text: str, rule_name: str, *, trace: bool = False) -> list[Any]:
        if trace:
            return parse(text, rule_name=rule_name, trace=trace)
        copies: list[Any] = _copy_symbols(parsed(text, rule_name))
        return copies

    return parse_once


def _remembering_translations(translate: _Translate) -> _Translate:
    @lru_cache(_GAMES)
    def packed(domain: str, problem: str) -> bytes:
        # Compression saves nine tenths of the memory; unpacking takes a few milliseconds.
        return zlib.compress(pickle.dumps(translate(domain, problem), pickle.HIGHEST_PROTOCOL), level=1)

    def translate_once(
        domain: str,
        problem: str,
        verbose: bool = False,  # noqa: FBT001, FBT002 - the signature of fast_downward
        optimize: bool = False,  # noqa: FBT001, FBT002
    ) -> tuple[Any, str]:
        # Only the planner needs the optimised translation, and no episode uses the planner.
        task, sas = pickle.loads(zlib.decompress(packed(domain, problem)))  # noqa: S301 - packed just above
        return task, sas

    return translate_once
