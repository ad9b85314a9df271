"""Work spread over processes, here or on a Ray cluster, with results in order.

A call whose process died on a cluster is made again, and changes nothing by that: the work is pure functions.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, TypeAlias

from jeeves_reflexion.experiments.ray.connection import Connection, RayOptions, module_paths
from jeeves_reflexion.experiments.ray.messages import Failed, failed, load_ray, packed, ray_failure

Spread: TypeAlias = Callable[..., Iterable[Any]]
"""``map`` over one sequence, perhaps in several processes; results come in order."""

MOST_RETRIES: Final = 4
"""So often a call is made again whose process died."""


@contextlib.contextmanager
def spreading(workers: int, ray: RayOptions | None = None) -> Iterator[Spread]:
    """Give a ``map`` over that many processes, on a cluster where one is named; here for one worker, the builtin.

    On a cluster, the map raises what a call raised, of its own class where that is one of this package's, else
    :class:`~jeeves_reflexion.errors.ExperimentError`; that too where the process of one call died again and again.
    """
    if ray is not None:
        connection = Connection(ray)
        try:
            with contextlib.redirect_stdout(sys.stderr):  # what Ray prints is no result
                connection.open()
            yield _Cluster(workers).map
        except BaseException:
            connection.close(keep_logs=True)
            raise
        connection.close()
    elif workers == 1:
        yield map
    else:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            try:
                yield pool.map
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


class _Cluster:
    def __init__(self, workers: int) -> None:
        self._ray = load_ray()
        self._workers = workers
        self._far = self._ray.remote(_called).options(num_cpus=1, max_retries=MOST_RETRIES)

    def map(self, function: Callable[[Any], Any], values: Iterable[Any]) -> Iterator[Any]:
        waiting = enumerate(values)
        flying: dict[Any, int] = {}
        done: dict[int, Any] = {}
        due = 0
        try:
            while True:
                for number, value in islice(waiting, self._workers - len(flying)):
                    call = packed((function, value), f"call {number + 1} of {function.__name__}")
                    flying[self._far.remote(call, module_paths())] = number
                if not flying:
                    return
                for ready in self._ray.wait(list(flying))[0]:
                    done[flying.pop(ready)] = self._result(ready)
                while due in done:
                    yield done.pop(due)
                    due += 1
        finally:
            for left in flying:
                self._ray.cancel(left, force=True)

    def _result(self, ready: Any) -> Any:  # noqa: ANN401 - Ray has no types
        try:
            result = self._ray.get(ready)
        except self._ray.exceptions.RayError as error:
            raise ray_failure(error) from error
        if isinstance(result, Failed):
            raise result.raised()
        return result


def _called(call: bytes, paths: Sequence[str]) -> Any:  # noqa: ANN401 - what the function returns
    """Make a call in a worker process; an error is returned as text, for not every one can be sent."""
    sys.path.extend(path for path in paths if path not in sys.path and Path(path).exists())
    try:
        function, value = pickle.loads(call)  # noqa: S301 - sent by this program itself
        return function(value)
    except Exception as error:  # noqa: BLE001 - raised where the result is waited for
        return failed(error, " (in a worker process)")
