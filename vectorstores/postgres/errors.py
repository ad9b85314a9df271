"""What PostgreSQL says, in this package's words; and which of it passes by itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import errors as pg

from vectorstores.base import EmbedderMismatchError, StoreUnavailableError, VectorStoreError
from vectorstores.postgres.rights import advice

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place

# What passes beside lost connections: serialisation, deadlock, too many connections, a standby that is about to
# be promoted, a prepared statement that the server forgot, a lock that was not to be had in the time given.
_PASSING: Final = frozenset({"40001", "40P01", "53300", "25006", "26000", "55P03"})
# psycopg gives no code for what happens before a session begins, only libpq's words.
_COMING: Final = re.compile(r"starting up|shutting down|recovery mode|not yet accepting|not accepting")
_WORDS: Final = {
    pg.DiskFull: "the server's disk is full ({}); nothing of the call was stored",
    pg.ReadOnlySqlTransaction: "the server takes no writes, like a standby ({}); use the address of the primary",
    pg.QueryCanceled: "a statement was cancelled at the server ({})",
}


def is_coming(error: BaseException) -> bool:
    """Say whether a server answered, and will be ready in a moment."""
    return isinstance(error, psycopg.OperationalError) and _COMING.search(str(error)) is not None


def is_lost(error: BaseException) -> bool:
    """Say whether the connection went away with this error."""
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    state = error.sqlstate
    return state is None or state.startswith("08") or state in {"57P01", "57P02", "57P03", "57P05"}


def is_passing(error: BaseException) -> bool:
    """Say whether the same call may work a moment later."""
    if isinstance(error, pg.FeatureNotSupported):
        return "cached plan" in str(error)
    if isinstance(error, TimeoutError) or is_lost(error):
        return True
    return isinstance(error, psycopg.Error) and error.sqlstate in _PASSING


def translated(error: psycopg.Error | TimeoutError, place: Place) -> VectorStoreError:
    """Return the error of this package that says the same, and what to do."""
    if isinstance(error, TimeoutError):
        return StoreUnavailableError(f"{place}: the server did not answer in time; is it running?")
    said = (error.diag.message_primary or str(error) or type(error).__name__).strip()
    if isinstance(error, pg.UndefinedColumn) and "vector_" in said:
        return EmbedderMismatchError(
            f"{place}: the store was re-embedded since it was opened; open it again, with its new embedder"
        )
    if isinstance(error, pg.UndefinedTable | pg.InvalidSchemaName | pg.UndefinedColumn):
        return StoreUnavailableError(
            f"{place}: the tables of the store are gone or changed ({said}); open it again"
        )
    if isinstance(error, pg.InsufficientPrivilege):
        return StoreUnavailableError(f"{place}: {said}; {advice(said, place)}")
    # Its time limit and pg_cancel_backend() share a code. In another language, what the server said has to do.
    if isinstance(error, pg.QueryCanceled) and "statement timeout" in said:
        return StoreUnavailableError(f"{place}: a statement took too long ({said}); see PostgresOptions")
    words = next((words for kind, words in _WORDS.items() if isinstance(error, kind)), "{} (%s)")
    return StoreUnavailableError(
        f"{place}: " + words.format(said).replace("(%s)", f"({type(error).__name__})")
    )
