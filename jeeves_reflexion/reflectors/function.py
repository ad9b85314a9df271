"""Any callable as a reflector."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from jeeves_reflexion.callables import run, signature_of
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.session import Meter
from jeeves_reflexion.types import Outcome, Reflection, Task, Trial


def as_reflector(function: Callable[..., object]) -> FunctionReflector:
    """Wrap a sync or async callable of ``(task, trials)`` as a reflector.

    It returns the sentence, or a :class:`Reflection` with its usage, as for
    :func:`~jeeves_reflexion.agents.function.as_agent`. If it also takes ``problem``, it is told why its previous answer
    was refused. A sync callable runs in a worker thread.
    """
    return FunctionReflector(function)


class FunctionReflector:
    """A reflector made from a callable; see :func:`as_reflector`."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        signature = signature_of(function, f"reflector {self.name}")
        self._takes_problem = "problem" in signature.parameters
        named = {"problem": None} if self._takes_problem else {}
        try:
            signature.bind(None, None, **named)
        except TypeError as error:
            raise ConfigurationError(
                f"reflector {self.name}: it must take (task, trials): {error}"
            ) from error

    async def __call__(
        self, task: Task, trials: Sequence[Trial], *, problem: str | None = None
    ) -> Reflection:
        """Return the callable's reflection on the last of ``trials``."""
        call = functools.partial(self._function, task, trials)
        if self._takes_problem:
            call = functools.partial(call, problem=problem)
        meter = Meter()
        value = await run(self._function, call)
        if isinstance(value, str):
            outcome: Outcome = "success" if trials and trials[-1].passed else "failed"
            return Reflection(value, outcome=outcome, usage=meter.usage())
        if isinstance(value, Reflection):
            return value
        raise ConfigurationError(
            f"reflector {self.name} returned {value!r}: it must return a sentence or a Reflection"
        )
