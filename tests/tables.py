"""Tables of rows that one test checks, all of them, telling each that fails: for rows that cost next to nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest


def table(names: str | Sequence[str], rows: Iterable[Any]) -> Callable[[Callable], Callable]:
    """Have a test, sync or async, check every row of a table, as ``parametrize`` would in as many tests.

    Fixtures are the same for all rows: a test whose rows change what a fixture holds is to be parametrised instead.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [dict(zip(keys, row if len(keys) > 1 else (row,), strict=True)) for row in rows]
    assert table, "a table without rows checks nothing"

    def over_rows(test: Callable) -> Callable:
        async def checked_async(**fixtures: Any) -> None:
            failures: list[Exception] = []
            for row in table:
                with _kept(failures, row):
                    await test(**row, **fixtures)
            _tell(failures, len(table))

        def checked(**fixtures: Any) -> None:
            failures: list[Exception] = []
            for row in table:
                with _kept(failures, row):
                    test(**row, **fixtures)
            _tell(failures, len(table))

        made = checked_async if inspect.iscoroutinefunction(test) else checked
        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in keys]
        made.__dict__.update(test.__dict__)
        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            setattr(made, name, getattr(test, name))
        made.__signature__ = signature.replace(parameters=left)
        return made

    return over_rows


@contextmanager
def _kept(failures: list[Exception], row: dict[str, Any]) -> Iterator[None]:
    try:
        yield
    except (
        pytest.fail.Exception
    ) as failed:  # such as of raises(); it is no Exception, and a group of them neither
        _keep(failures, AssertionError(str(failed)).with_traceback(failed.__traceback__), row)
    except Exception as error:  # noqa: BLE001 - told when all rows are checked
        _keep(failures, error, row)


def _keep(failures: list[Exception], error: Exception, row: dict[str, Any]) -> None:
    error.add_note(f"the row: {row!r:.500}")
    failures.append(error)


def _tell(failures: list[Exception], rows: int) -> None:
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {rows} rows fail", failures)
