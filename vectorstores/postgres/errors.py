"""Translates errors of PostgreSQL into those of this package, and tells which of them pass by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import errors as pg
from psycopg import pq, sql
from psycopg.conninfo import conninfo_to_dict

from vectorstores.base import EmbedderMismatchError, StoreUnavailableError, VectorStoreError
from vectorstores.postgres.embedded import log_end

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place

# What passes, apart from lost connections: a serialisation failure, a deadlock, too many connections, a standby that is
# being promoted, a prepared statement that the server forgot, a lock that was not free in time.
_PASSING: Final = frozenset({"40001", "40P01", "53300", "25006", "26000", "55P03"})
# The rights of a trusted role that does not own the tables. The server has one code for all missing rights, so if its
# messages are not in English, these statements are the only advice.
_GRANTS: Final = (
    "GRANT USAGE ON SCHEMA {0} TO {1}; GRANT SELECT ON {0}.meta, {0}.scopes TO {1};"
    " GRANT SELECT, INSERT, UPDATE, DELETE ON {0}.chunks, {0}.records TO {1};"
)


class NotConnectedError(psycopg.OperationalError):
    """No connection could be made."""


def is_lost(error: BaseException) -> bool:
    """Return whether this error ended the connection."""
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    state = error.sqlstate
    return state is None or state.startswith("08") or state in {"57P01", "57P02", "57P03", "57P05"}


def is_passing(error: BaseException) -> bool:
    """Return whether the same call may succeed a moment later."""
    if isinstance(error, pg.FeatureNotSupported):
        return "cached plan" in str(error)
    if isinstance(error, TimeoutError) or is_lost(error):
        return True
    return isinstance(error, psycopg.Error) and error.sqlstate in _PASSING


def translated(error: psycopg.Error | TimeoutError, place: Place) -> VectorStoreError:
    """Return the error of this package for an error of PostgreSQL, with what to do."""
    if isinstance(error, NotConnectedError):
        log = "" if place.folder is None else f"; the end of its log:\n{log_end(place.folder)}"
        return StoreUnavailableError(
            f"{place} can't be reached: {error}{_advice(error, str(error), place)}{log}"
        )
    said = str(error) if isinstance(error, TimeoutError) else error.diag.message_primary or str(error)
    said = said.strip() or type(error).__name__
    if isinstance(error, pg.UndefinedColumn) and "vector_" in said:
        return EmbedderMismatchError(
            f"{place}: the store was re-embedded since it was opened; open it again, with its new embedder"
        )
    if isinstance(error, TimeoutError):
        told = "the server did not answer in time; is it running?"
    elif isinstance(error, pg.UndefinedTable | pg.InvalidSchemaName | pg.UndefinedColumn):
        told = f"the tables of the store are gone, changed, or not for this role ({said}); open it again"
    elif isinstance(error, pg.InsufficientPrivilege):
        told = f"{said}; {_advice(error, said, place)}"
    elif isinstance(error, pg.QueryCanceled):
        late = f"a statement took too long ({said}); see PostgresOptions"
        cancelled = f"a statement was cancelled at the server ({said})"
        # The time limit and pg_cancel_backend() share a code; only an English message tells them apart.
        told = late if "statement timeout" in said else cancelled
    elif isinstance(error, pg.LockNotAvailable):
        told = (
            f"another transaction, such as a backup or the build of an index, uses the tables ({said}); try again when"
            " it has ended"
        )
    elif isinstance(error, pg.DiskFull):
        told = f"the server's disk is full ({said}); nothing of the call was stored"
    elif isinstance(error, pg.ReadOnlySqlTransaction):
        told = f"the server takes no writes, like a standby ({said}); use the address of the primary"
    else:
        told = f"{said} ({type(error).__name__})"
    return StoreUnavailableError(f"{place}: {told}")


def _advice(error: psycopg.Error, said: str, place: Place) -> str:
    """Return what to do about a missing right; "" if a connection failed for another reason."""
    default = {each.keyword: each.val for each in pq.Conninfo.get_defaults()}
    parts = conninfo_to_dict(place.conninfo)
    user = str(parts.get("user") or (default.get(b"user") or b"").decode())
    named = str(parts.get("dbname") or (default.get(b"dbname") or b"").decode() or user)
    role, database, schema = map(sql.Identifier, (user, named, place.schema))
    if isinstance(error, NotConnectedError):
        if "permission denied for database" in said:
            statement = sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, role)
        elif "is not permitted to log in" in said:
            statement = sql.SQL("ALTER ROLE {} LOGIN").format(role)
        else:
            return ""
        return f"; an administrator runs: {statement.as_string(None)};"
    let_in = "the owner of the tables lets a role into a namespace by PostgresVectorStore.secure()"
    if "row-level security" in said:
        return let_in
    if "must be owner" in said:
        return "use the address of the role that owns the tables"
    grants = sql.SQL(_GRANTS).format(schema, role).as_string(None)
    return f"{let_in}; for a role that may see all, an administrator runs in database {named}: {grants}"
