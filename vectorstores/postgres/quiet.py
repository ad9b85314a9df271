"""Keeps what psycopg says about a connection that was lost, or a call that was given up, out of a program's log.

When a pipeline or a COPY ends by an error, psycopg warns of each further error that this brings with it. The first one
is raised, and this package tries again or raises it in its own words, so the warning names nothing that is not told
elsewhere; at a server's restart there would be one for each call. It also warns where a statement that was given up
could not be cancelled; the connection is closed then. Both go to the logger ``vectorstores`` as DEBUG. Other records
of the logger ``psycopg``, and all those of other users of psycopg, pass as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_LOG: Final = logging.getLogger("vectorstores")
_WORDS: Final = ("error ignored ", "query cancellation ", "query not terminated ")
_within: ContextVar[bool] = ContextVar("vectorstores_postgres_call", default=False)


@contextmanager
def quiet() -> Iterator[None]:
    """Mark what is done inside as a call of this package."""
    token = _within.set(True)
    try:
        yield
    finally:
        _within.reset(token)


def _pass(record: logging.LogRecord) -> bool:
    if not _within.get() or not str(record.msg).startswith(_WORDS):
        return True
    _LOG.debug("psycopg: %s", record.getMessage())
    return False


# Adding it again changes nothing.
logging.getLogger("psycopg").addFilter(_pass)
