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
    schemas = [text.partition("=")[2] for name, text in parameters if name == "schema"]
    if not schemas:
        return url, DEFAULT_SCHEMA
    rest = "&".join(text for name, text in parameters if name != "schema")
    return (f"{head}?{rest}" if rest else head), unquote(schemas[-1])


def _split_parameters(url: str) -> tuple[str, list[tuple[str, str]]]:
    """Split an address into the rest and its parameters, each with its name.

    A question mark may stand in a password, as libpq allows.
    """
    start = url.index("://") + 3
    slash, at = url.find("/", start), url.find("@", start)
    if at >= 0 and (slash < 0 or at < slash):
        start = at
    mark = url.find("?", start)
    if mark < 0:
        return url, []
    return url[:mark], [(unquote(each.partition("=")[0]), each) for each in url[mark + 1 :].split("&")]


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
    if any(text for _, text in parameters):
        raise StoreUnavailableError(
            f"{EMBEDDED}{path} has the parameter {parameters[0][0]!r}; an embedded server takes none but schema,"
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
        from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 - optional

        parts = conninfo_to_dict(self.conninfo)
        host = parts.get("host") or parts.get("hostaddr") or "the default host"
        port = f":{parts['port']}" if parts.get("port") else ""
        return (
            f"PostgreSQL at {host}{port}, database {parts.get('dbname') or '(default)'}, schema {self.schema}"
        )


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
