"""The ways to remember that are compared, on either side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from jeeves_reflexion import ConfigurationError

SideName: TypeAlias = Literal["jeeves-reflexion", "jeevesagent"]
OURS: SideName = "jeeves-reflexion"
PEER: SideName = "jeevesagent"


@dataclass(frozen=True, slots=True)
class Arm:
    """A framework with one way to remember; ``timed`` arms only take part where the frameworks' own time is measured.

    ``base`` and ``max_turns`` are the peer's: its ReAct with a tool, or a base architecture that plays an attempt.
    """

    name: str
    side: SideName
    what: str
    memory: str
    store: Literal["none", "block", "memory", "faiss"] = "memory"
    embedder: Literal["referee", "its own"] = "referee"
    base: Literal["player", "react"] = "player"
    max_turns: int | None = None
    timed: bool = False

    @property
    def title(self) -> str:
        """The side and the arm."""
        return f"{self.side}: {self.name}"


ARMS: tuple[Arm, ...] = (
    Arm("retry", OURS, "no memory: what trying again is worth", "none", store="none"),
    Arm("selective", OURS, "the 3 lessons nearest to the game, of all games; its defaults", "selective"),
    Arm("own", OURS, "the last 3 lessons of the same game, as in the paper", "own"),
    Arm("block", PEER, "its defaults: ReAct, `max_turns=50`, a block", "block", store="block", base="react"),
    Arm(
        "store, HashEmbedder",
        PEER,
        "`lesson_store=InMemoryVectorStore(embedder=HashEmbedder())`, as in its README",
        "store",
        embedder="its own",
    ),
    Arm("store, MiniLM", PEER, "the same store with the vectors that ours gets", "store"),
    Arm("store by task", PEER, "mended by us: the task is embedded in place of the lesson", "by task"),
    Arm(
        "block per game",
        PEER,
        "mended by us: an agent for each game, a line for each lesson",
        "own, a line each",
        store="block",
    ),
)
"""The arms whose success is compared."""

TIMED: tuple[Arm, ...] = (
    next(arm for arm in ARMS if arm.name == "selective"),
    Arm(
        "selective, FAISS folder",
        OURS,
        "durable when `record` returns",
        "selective",
        store="faiss",
        timed=True,
    ),
    next(arm for arm in ARMS if arm.name == "store, MiniLM"),
    Arm("store, FAISS", PEER, "its FAISS store, which is in memory", "store", store="faiss", timed=True),
)
"""The arms whose own time is compared: ours and the peer's store, in memory and with FAISS."""


def arm_named(name: str) -> Arm:
    """Return the arm of that name; raises :class:`ConfigurationError`."""
    for arm in (*ARMS, *TIMED):
        if arm.name == name:
            return arm
    raise ConfigurationError(f"there is no arm {name!r}: {', '.join(arm.name for arm in ARMS)}")
