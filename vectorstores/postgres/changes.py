"""Changes of a store as they are committed, by LISTEN and NOTIFY."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import anyio
import psycopg
from psycopg import sql

from vectorstores.postgres.connection import start_again
from vectorstores.postgres.session import connect

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place
    from vectorstores.postgres.options import PostgresOptions

Kind: TypeAlias = Literal["chunks", "records"]

# How soon a listener notices that the store was closed.
_TICK: Final = 0.25
_LONGEST_WAIT: Final = 5.0


@dataclass(frozen=True, slots=True)
class Change:
    """Something was committed: ``chunks`` or ``records``.

    ``missed`` says that the connection was lost and is back: anything may have changed meanwhile. ``namespace``
    is known when it is the listener's own, else None: others are told apart by digests only.
    """

    kind: Literal["chunks", "records", "missed"]
    namespace: str | None


def channel(store: str) -> str:
    """Return the name of the channel on which a store's changes are told."""
    return f"vectorstores_{store[:32]}"


def payload(store: str, namespace: str, kind: Kind) -> str:
    """Return what is told of a change: its kind, and a digest of the namespace that means nothing elsewhere."""
    return f"{kind}:{hashlib.sha256(f'{store}:{namespace}'.encode()).hexdigest()[:24]}"


async def follow(
    place: Place, options: PostgresOptions, store: str, namespace: str, is_closed: Callable[[], bool]
) -> AsyncIterator[Change]:
    """Yield changes until the store is closed, over a connection of its own that is made again when it is lost."""
    listen = sql.SQL("LISTEN {}").format(sql.Identifier(channel(store)))
    kinds: tuple[Kind, ...] = ("chunks", "records")
    own = {payload(store, namespace, kind): Change(kind, namespace) for kind in kinds}
    pause, lost = 0.1, False
    while not is_closed():
        try:
            async with await connect(place, options) as connection:
                await connection.execute(listen)
                if lost:
                    yield Change("missed", None)
                pause = 0.1
                while not is_closed():
                    async for told in connection.notifies(timeout=_TICK):
                        kind: Kind = "records" if told.payload.startswith("records:") else "chunks"
                        yield own.get(told.payload, Change(kind, None))
        except psycopg.OperationalError:
            lost = True
            # Why it can't be started, if so, is told to those who call; this goes on until it can.
            await start_again(place, _LONGEST_WAIT)
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_WAIT)
