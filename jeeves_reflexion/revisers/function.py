"""Any callable as a reviser."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Literal, TypeAlias

from jeeves_reflexion.callables import is_for, run, signature_of, takes
from jeeves_reflexion.drafts import Revision, RevisionRequest
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.revisers.scope import issues_of
from jeeves_reflexion.types import Evaluation, Task

_Takes: TypeAlias = Literal["request", "evaluation", "output"]


def as_reviser(function: Callable[..., object]) -> FunctionReviser:
    """Wrap a sync or async callable of ``(task, request)``, ``(output, evaluation)`` or ``(output)`` as a reviser.

    One of two parameters gets the task and the request where the first is called ``task`` or annotated as one, or the
    second is called ``request``; else the draft's text and the verdict. One that can also be called with a single
    argument gets the second only where that is called ``request``, ``evaluation`` or ``feedback``, or annotated so.
    It returns the new text or a :class:`~jeeves_reflexion.drafts.Revision`; a text counts as a full rewrite. A sync
    callable runs in a worker thread, which is left behind when the run is cancelled. Raises
    :class:`ConfigurationError` if it can't be called so.
    """
    return FunctionReviser(function)


class FunctionReviser:
    """A reviser made of a callable; see :func:`as_reviser`."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        self._takes = self._what_it_takes()

    def _what_it_takes(self) -> _Takes:
        signature = signature_of(self._function, f"reviser {self.name}")
        two, one = takes(signature, 2), takes(signature, 1)
        if not (two or one):
            raise ConfigurationError(
                f"reviser {self.name}: it must take (task, request), (output, evaluation) or (output)"
            )
        if not two:
            return "output"
        first, *rest = signature.parameters.values()
        if first.kind is first.VAR_POSITIONAL or is_for(first, Task, "task"):
            return "request"
        second = rest[0]
        if is_for(second, RevisionRequest, "request"):
            return "request"
        named = is_for(second, Evaluation, "evaluation", "feedback")
        return "evaluation" if named or not one else "output"

    async def __call__(self, task: Task, request: RevisionRequest) -> Revision:
        """Return the callable's revision of the draft."""
        given: tuple[object, ...] = (task, request)
        if self._takes == "evaluation":
            given = (request.draft.output, request.feedback)
        elif self._takes == "output":
            given = (request.draft.output,)
        value = await run(self._function, functools.partial(self._function, *given))
        if isinstance(value, Revision):
            return value
        if isinstance(value, str):
            addressed = () if self._takes == "output" else issues_of(request.feedback)
            return Revision(value, "full_rewrite", f"by {self.name}", addressed)
        raise ConfigurationError(
            f"reviser {self.name} returned {value!r}: it must return the new text or a Revision"
        )
