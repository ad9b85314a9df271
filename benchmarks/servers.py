"""A PostgreSQL server for the time of a measurement."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SCHEME: Final = "postgresql+embedded://"


@contextmanager
def embedded_postgres() -> Iterator[str]:
    """Yield the address of a server in a temporary folder, and stop the server at the end."""
    from vectorstores.postgres.embedded import leave  # noqa: PLC0415 - needs the extra

    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        try:
            yield f"{SCHEME}{folder}"
        finally:
            leave(Path(folder))
