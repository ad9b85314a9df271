"""Work spread over processes, here or on a Ray cluster, with results in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, TypeAlias

from jeeves_reflexion.experiments.ray.connection import RayOptions
from jeeves_reflexion.experiments.ray.spread import spreading_on_ray

Spread: TypeAlias = Callable[..., Iterable[Any]]
"""``map`` over one sequence, perhaps in several processes; results come in order."""


@contextmanager
def spreading(workers: int, ray: RayOptions | None = None) -> Iterator[Spread]:
    """Give a ``map`` over that many processes, on a cluster where one is named; here for one worker, the builtin."""
    if ray is not None:
        with spreading_on_ray(ray, workers=workers) as spread:
            yield spread
        return
    if workers == 1:
        yield map
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        try:
            yield pool.map
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
