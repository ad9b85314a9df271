"""The address of a PostgreSQL store, and the limits of its connections."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from vectorstores.base import MissingDependencyError, StoreUnavailableError

EMBEDDED: Final = "postgresql+embedded://"
_URLS: Final = ("postgresql://", "postgres://")
DEFAULT_SCHEMA: Final = "vectorstores"


def is_postgres(url: str) -> bool:
    """Return whether an address is one of PostgreSQL."""
    return url.startswith((*_URLS, EMBEDDED))


def split_schema(url: str) -> tuple[str, str]:
    """Split an address into the rest and the value of its parameter ``schema``, which the driver doesn't know.

    The rest stays unchanged, since the driver reads it by its own rules, not by those of web addresses.
    """
    head, parameters = _split_parameters(url)
    schemas = [each.partition("=")[2] for each in parameters if _name(each) == "schema"]
    if not schemas:
        return url, DEFAULT_SCHEMA
    rest = "&".join(each for each in parameters if _name(each) != "schema")
    return (f"{head}?{rest}" if rest else head), unquote(schemas[-1])


def _split_parameters(url: str) -> tuple[str, list[str]]:
    """Split an address as libpq does, which allows a question mark in a password."""
    start = url.index("://") + 3
    slash, at = url.find("/", start), url.find("@", start)
    if at >= 0 and (slash < 0 or at < slash):
        start = at
    mark = url.find("?", start)
    return (url, []) if mark < 0 else (url[:mark], url[mark + 1 :].split("&"))


def _name(parameter: str) -> str:
    return unquote(parameter.partition("=")[0])


def embedded_folder(conninfo: str) -> Path | None:
    """Return the folder of ``postgresql+embedded:///path``; None for any other address."""
    if not conninfo.startswith(EMBEDDED):
        return None
    head, parameters = _split_parameters(conninfo)
    path = unquote(head.removeprefix(EMBEDDED))
    if not path.startswith("/"):
        raise StoreUnavailableError(
            f"{EMBEDDED}{path} names no absolute folder; write {EMBEDDED}/absolute/path (three slashes)"
        )
    if any(parameters):
        raise StoreUnavailableError(
            f"{EMBEDDED}{path} has the parameter {_name(parameters[0])!r}; an embedded server takes none but schema,"
            " which only open_store() reads (a question mark in a path is written %3F)"
        )
    if "\0" in path:
        raise StoreUnavailableError(f"{path!r} is no path: it contains the character NUL")
    return Path(path)


def require_psycopg() -> None:
    """Raise :class:`MissingDependencyError` unless psycopg and pgvector can be loaded."""
    try:
        import pgvector  # noqa: F401, PLC0415 - optional
        import psycopg  # noqa: F401, PLC0415 - optional
    except ImportError as error:
        raise MissingDependencyError(
            "a PostgreSQL store needs psycopg 3.2 and pgvector 0.4 or newer:"
            f' pip install "jeeves-reflexion[postgres]" ({error})'
        ) from error


@dataclass(frozen=True, slots=True)
class Place:
    """A database and the schema of the store in it. Its text contains no password."""

    conninfo: str
    schema: str
    folder: Path | None = None
    """The folder of an embedded server, which this package starts."""

    def __repr__(self) -> str:
        return self.shown

    @property
    def shown(self) -> str:
        """Host, port, database and schema, for people."""
        from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 - optional

        parts = conninfo_to_dict(self.conninfo)
        host = parts.get("host") or parts.get("hostaddr") or "the default host"
        port = f":{parts['port']}" if parts.get("port") else ""
        return (
            f"PostgreSQL at {host}{port}, database {parts.get('dbname') or '(default)'}, schema {self.schema}"
        )


def place_of(conninfo: str, schema: str) -> Place:
    """Check an address that the driver understands.

    Raises :class:`StoreUnavailableError`, which does not repeat the address, since it may contain a password.
    """
    require_psycopg()
    from psycopg import ProgrammingError  # noqa: PLC0415 - optional
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 - optional

    if not schema or "\0" in schema or len(schema.encode()) > 63:
        raise StoreUnavailableError(f"{schema!r} is no name of a schema: 1 to 63 bytes without NUL")
    try:
        conninfo_to_dict(conninfo)
    except ProgrammingError:
        raise StoreUnavailableError(
            "the address of the PostgreSQL store can't be read; expected postgresql://user@host:port/database"
            " or key=value pairs (https://www.postgresql.org/docs/current/libpq-connect.html); special"
            " characters of a password in an address are written %XX"
        ) from None
    return Place(conninfo, schema)


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """Limits of a store's connections; times in seconds.

    At most ``pool_size`` connections are opened per event loop; further calls wait ``checkout_timeout`` for one.
    ``statement_timeout`` limits each statement on the server. ``retry_for`` is how long a call is retried while the
    server restarts or the connection is lost.
    """

    pool_size: int = 10
    connect_timeout: float = 10.0
    checkout_timeout: float = 30.0
    statement_timeout: float = 60.0
    retry_for: float = 30.0

    def __post_init__(self) -> None:
        if isinstance(self.pool_size, bool) or not isinstance(self.pool_size, int):
            raise TypeError(f"pool_size must be a whole number, got {self.pool_size!r}")
        for name in ("pool_size", "connect_timeout", "checkout_timeout", "statement_timeout"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)!r}")
        if not 0 <= self.retry_for < math.inf:
            raise ValueError(f"retry_for must not be negative, got {self.retry_for!r}")
