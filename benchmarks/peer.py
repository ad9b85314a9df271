"""The peer that :mod:`benchmarks.costs` compares the loop with: jeevesagent's Reflexion over its ReAct."""

from __future__ import annotations

import functools
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from importlib.metadata import version
from typing import Any, Final

import click

PEER: Final = "jeevesagent"
PEER_VERSION: Final = "0.9.7"


def peer_loop(
    replies: Sequence[str], attempts: int, *, store: str | None = None
) -> Callable[[], Awaitable[object]]:
    """Make the peer's loop, and return a function that runs it once; every attempt fails.

    ``store`` is the name of the peer's class for its lessons, which it fills with its hashing embedder. Raises
    ``click.ClickException``, with the command to install the peer, if it is missing or of another version.
    """
    peer = _installed_peer()
    usage = peer.Usage()
    pieces = {reply: peer.ModelChunk(kind="text", text=reply) for reply in replies}
    end = peer.ModelChunk(kind="finish", finish_reason="stop", usage=usage)

    class InstantModel:
        """The smallest ``Model`` that the peer allows: one piece of text, then the end."""

        name = "instant"

        def __init__(self) -> None:
            self._replies = itertools.cycle(replies)

        async def complete(self, messages: Any, **_: Any) -> tuple[str, list[Any], Any, str]:  # noqa: ANN401
            return next(self._replies), [], usage, "stop"

        async def stream(self, messages: Any, **_: Any) -> AsyncIterator[Any]:  # noqa: ANN401
            yield pieces[next(self._replies)]
            yield end

    lessons = getattr(peer, store)(peer.HashEmbedder()) if store else None
    loop = peer.Reflexion(base=peer.ReAct(), max_attempts=attempts, lesson_store=lessons)
    agent = peer.Agent("You are a careful assistant.", model=InstantModel(), architecture=loop)

    async def run() -> object:
        return await agent.run("What is six times seven?")

    return run


@functools.cache  # reading the version takes as long as a run, and would count as the peer's time
def _installed_peer() -> Any:  # noqa: ANN401 - an untyped package
    try:
        import jeevesagent  # noqa: PLC0415 - optional: this benchmark alone uses it

        found = version(PEER)
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"the peer is not installed: pip install {PEER}=={PEER_VERSION}"
        ) from error
    if found != PEER_VERSION:
        raise click.ClickException(f"the peer is {PEER} {found}: pip install {PEER}=={PEER_VERSION}")
    return jeevesagent
