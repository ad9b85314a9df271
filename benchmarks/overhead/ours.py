"""Our side: Reflexion over ReAct, the model as judge and reflector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.overhead.work import PROMPT, REPLIES, Case, Observed, Run, Script, Side
from jeeves_reflexion import (
    Completion,
    LoopOptions,
    Message,
    ReAct,
    Reflexion,
    Sampling,
    ToolSpec,
    Usage,
    __version__,
)
from jeeves_reflexion.types import JSON

_COMPLETIONS = {reply: Completion(reply, usage=Usage(calls=1)) for reply in REPLIES}


class InstantModel:
    """The least that ``ChatModel`` allows: it looks up a reply and returns it."""

    name = "instant"
    supports_tools = False

    def __init__(self, script: Script) -> None:
        self._script = script

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, JSON] | None = None,
        sampling: Sampling | None = None,
    ) -> Completion:
        """Return the next reply."""
        return _COMPLETIONS[self._script.next()]


def _loop(case: Case, script: Script) -> Reflexion:
    model = InstantModel(script)
    return Reflexion(
        ReAct(model), model=model, max_attempts=case.attempts, options=LoopOptions(learn=case.lessons)
    )


def _prepare(case: Case) -> Run:
    loop = _loop(case, Script(case))

    async def run() -> None:
        await loop.run(PROMPT)

    return run


async def _observe(case: Case) -> Observed:
    script = Script(case)
    result = await _loop(case, script).run(PROMPT)
    return Observed(tuple(trial.evaluation.score for trial in result.trials), script.calls)


OURS = Side("jeeves-reflexion", __version__, _prepare, _observe)
