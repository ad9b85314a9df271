"""Translates errors of PostgreSQL into those of this package, and tells which of them pass by themselves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import errors as pg
from psycopg import pq, sql
from psycopg.conninfo import conninfo_to_dict

from vectorstores.base import EmbedderMismatchError, StoreUnavailableError, VectorStoreError

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place

# What passes, apart from lost connections: a serialisation failure, a deadlock, too many connections, a standby that is
# being promoted, a prepared statement that the server forgot, a lock that was not free in time.
_PASSING: Final = frozenset({"40001", "40P01", "53300", "25006", "26000", "55P03"})
# psycopg gives no code for what happens before a session begins, only libpq's words.
_COMING: Final = re.compile(r"starting up|shutting down|recovery mode|not yet accepting|not accepting")
# The rights of a trusted role that does not own the tables. The server has one code for all missing rights, so if its
# messages are not in English, these statements are the only advice.
_GRANTS: Final = (
    "GRANT USAGE ON SCHEMA {0} TO {1}; GRANT SELECT ON {0}.meta, {0}.scopes TO {1};"
    " GRANT SELECT, INSERT, UPDATE, DELETE ON {0}.chunks, {0}.records TO {1};"
)


def is_coming(error: BaseException) -> bool:
    """Return whether the server answered that it will be ready in a moment."""
    return isinstance(error, psycopg.OperationalError) and _COMING.search(str(error)) is not None


def is_lost(error: BaseException) -> bool:
    """Return whether this error ended the connection."""
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    state = error.sqlstate
    return state is None or state.startswith("08") or state in {"57P01", "57P02", "57P03", "57P05"}


def is_unanswered(error: BaseException) -> bool:
    """Return whether the statement may have been executed: the server did not refuse it."""
    return not isinstance(error, psycopg.Error) or (is_lost(error) and error.sqlstate in {None, "57P02"})


def is_passing(error: BaseException) -> bool:
    """Return whether the same call may succeed a moment later."""
    if isinstance(error, pg.FeatureNotSupported):
        return "cached plan" in str(error)
    if isinstance(error, TimeoutError) or is_lost(error):
        return True
    return isinstance(error, psycopg.Error) and error.sqlstate in _PASSING


def translated(error: psycopg.Error | TimeoutError, place: Place) -> VectorStoreError:
    """Return the error of this package for an error of PostgreSQL, with what to do."""
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
        told = f"{said}; {_advice(said, place)}"
    # The time limit and pg_cancel_backend() share a code; only an English message tells them apart.
    elif isinstance(error, pg.QueryCanceled) and "statement timeout" in said:
        told = f"a statement took too long ({said}); see PostgresOptions"
    elif isinstance(error, pg.QueryCanceled):
        told = f"a statement was cancelled at the server ({said})"
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


def _advice(said: str, place: Place) -> str:
    """Return what to do about a missing right."""
    if "row-level security" in said:
        return "the owner of the tables lets a role into a namespace by PostgresVectorStore.secure()"
    if "must be owner" in said:
        return "use the address of the role that owns the tables"
    role, database = _role_and_database(place)
    grants = sql.SQL(_GRANTS).format(sql.Identifier(place.schema), sql.Identifier(role)).as_string(None)
    return (
        "the owner of the tables lets a role into a namespace by PostgresVectorStore.secure(); for a role that may see"
        f" all, an administrator runs in database {database}: {grants}"
    )


def advice_on_connecting(said: str, place: Place) -> str:
    """Return what to do about a missing right to connect; "" if the connection failed for another reason."""
    role, database = map(sql.Identifier, _role_and_database(place))
    if "permission denied for database" in said:
        statement = sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, role)
    elif "is not permitted to log in" in said:
        statement = sql.SQL("ALTER ROLE {} LOGIN").format(role)
    else:
        return ""
    return f"; an administrator runs: {statement.as_string(None)};"


def _role_and_database(place: Place) -> tuple[str, str]:
    default = {each.keyword: each.val for each in pq.Conninfo.get_defaults()}
    parts = conninfo_to_dict(place.conninfo)
    role = str(parts.get("user") or (default.get(b"user") or b"").decode())
    return role, str(parts.get("dbname") or (default.get(b"dbname") or b"").decode() or role)
