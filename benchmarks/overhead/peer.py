"""The peer's side: jeevesagent's Agent with its Reflexion over its ReAct."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import Any

from benchmarks.overhead.work import PROMPT, REPLIES, Case, Observed, Run, Script, Side
from jeeves_reflexion import ConfigurationError

PEER = "jeevesagent"
PEER_VERSION = "0.9.7"
INSTALL = f"pip install {PEER}=={PEER_VERSION}"


def load_peer() -> Side:
    """Return the peer's side; raises :class:`ConfigurationError` saying how to install it."""
    try:
        import jeevesagent  # noqa: PLC0415 - optional: this benchmark alone uses it
    except ModuleNotFoundError as error:
        if error.name != PEER:
            raise
        raise ConfigurationError(f"the peer is not installed: {INSTALL}") from error
    found = version(PEER)
    if found != PEER_VERSION:
        raise ConfigurationError(f"the peer is {PEER} {found}, and {PEER_VERSION} is compared: {INSTALL}")
    return _side(jeevesagent)


def _side(peer: Any) -> Side:  # noqa: ANN401 - a module without types of its own here
    usage = peer.Usage()
    pieces = {reply: peer.ModelChunk(kind="text", text=reply) for reply in REPLIES}
    end = peer.ModelChunk(kind="finish", finish_reason="stop", usage=usage)

    class InstantModel:
        """The least that the peer's ``Model`` allows: one piece of text, then the end."""

        name = "instant"

        def __init__(self, script: Script) -> None:
            self._script = script

        async def complete(self, messages: Any, **_: Any) -> tuple[str, list[Any], Any, str]:  # noqa: ANN401
            return self._script.next(), [], usage, "stop"

        async def stream(self, messages: Any, **_: Any) -> AsyncIterator[Any]:  # noqa: ANN401
            yield pieces[self._script.next()]
            yield end

    def agent(case: Case, script: Script) -> Any:  # noqa: ANN401
        loop = peer.Reflexion(base=peer.ReAct(), max_attempts=case.attempts)
        return peer.Agent("You are a careful assistant.", model=InstantModel(script), architecture=loop)

    def prepare(case: Case) -> Run:
        prepared = agent(case, Script(case))

        async def run() -> None:
            await prepared.run(PROMPT)

        return run

    async def observe(case: Case) -> Observed:
        script = Script(case)
        events = [event.payload async for event in agent(case, script).stream(PROMPT)]
        scores = tuple(said["score"] for said in events if said.get("name") == "reflexion.evaluated")
        return Observed(scores, script.calls)

    return Side(PEER, PEER_VERSION, prepare, observe)
