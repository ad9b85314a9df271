"""Work spread over processes, with results in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, TypeAlias

Spread: TypeAlias = Callable[..., Iterable[Any]]
"""``map`` over one sequence, perhaps in several processes; results come in order."""


@contextmanager
def spreading(workers: int) -> Iterator[Spread]:
    """Give a ``map`` over that many processes; for one worker, the builtin."""
    if workers == 1:
        yield map
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        try:
            yield pool.map
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
