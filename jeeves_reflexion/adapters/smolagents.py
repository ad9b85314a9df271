"""Agents of smolagents, which run in a worker thread."""

from __future__ import annotations

import functools

import anyio.from_thread
from smolagents import ActionStep, FinalAnswerStep, MultiStepAgent, TokenUsage, ToolOutput

from jeeves_reflexion.adapters.base import Adapter, Trace, adapter_for, joined
from jeeves_reflexion.callables import run


class SmolAgent(Adapter):
    """An agent of smolagents, made for each attempt with the lessons in its ``instructions``.

    It doesn't use asyncio, so a cancelled attempt ends only after the current step.
    """

    made_per_attempt = True

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run the agent on the prompt; its instructions already include ``lessons``."""
        call = functools.partial(self._run, prompt, trace)
        try:
            return await run(call, call)
        except BaseException:
            self.agent.interrupt()
            raise

    def _run(self, prompt: str, trace: Trace) -> object:
        outputs: list[ToolOutput] = []
        inner: list[TokenUsage | None] = []
        _listen(self.agent, inner)
        for event in self.agent.run(prompt, stream=True, reset=True):
            anyio.from_thread.check_cancelled()
            if isinstance(event, ToolOutput):
                outputs.append(event)
            elif isinstance(event, ActionStep):
                anyio.from_thread.run(_tell, event, outputs, inner, trace)
                outputs, inner[:] = [], []
            elif isinstance(event, FinalAnswerStep):
                trace.output = event.output
        return trace.output


def _listen(agent: MultiStepAgent, inner: list[TokenUsage | None]) -> None:
    """Collect the usage of managed agents, which are made for this attempt as well."""
    for managed in agent.managed_agents.values():
        managed.step_callbacks.register(ActionStep, lambda step, **_: inner.append(step.token_usage))
        _listen(managed, inner)


async def _tell(
    step: ActionStep, outputs: list[ToolOutput], inner: list[TokenUsage | None], trace: Trace
) -> None:
    usage = step.token_usage
    thought = joined(step.model_output if isinstance(step.model_output, str) else "")
    by_id = {output.id: output for output in outputs}
    if step.error is not None and type(step.error).__name__ == "AgentMaxStepsError":
        trace.interrupted = "max_turns"
    else:
        for identity, name, arguments in _calls(step):
            output = by_id.get(identity)
            failed = step.error is not None and output is None
            result = str(step.error) if failed else output.observation if output else step.observations
            await trace.tool(name, arguments, result, thought=thought, failed=failed)
            thought = ""
    for used in (usage, *inner):
        trace.used(1, used.input_tokens if used else None, used.output_tokens if used else None)


def _calls(step: ActionStep) -> list[tuple[str, str, object]]:
    """Return the calls of a step except the final answer; if the step failed, only its message holds them."""
    if step.tool_calls:
        calls = [(call.id, call.name, call.arguments) for call in step.tool_calls]
    else:
        message = step.model_output_message
        wanted = (message.tool_calls if message else None) or ()
        calls = [(call.id, call.function.name, call.function.arguments) for call in wanted]
    return [call for call in calls if call[1] != "final_answer"]


adapter = adapter_for(SmolAgent, MultiStepAgent)
