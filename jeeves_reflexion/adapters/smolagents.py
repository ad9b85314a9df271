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
    trace.thought = joined(step.model_output if isinstance(step.model_output, str) else "")
    by_id = {output.id: output for output in outputs}
    if type(step.error).__name__ == "AgentMaxStepsError":
        trace.interrupted = "max_turns"
    else:
        calls = [(call.id, call) for call in step.tool_calls or ()]
        if not calls and step.model_output_message is not None:
            # Of a failed step, only its message holds the calls.
            calls = [(call.id, call.function) for call in step.model_output_message.tool_calls or ()]
        for identity, call in calls:
            if call.name != "final_answer":
                output = by_id.get(identity)
                failed = step.error is not None and output is None
                result = str(step.error) if failed else output.observation if output else step.observations
                await trace.tool(call.name, call.arguments, result, failed=failed)
    for used in (step.token_usage, *inner):
        trace.used(1, used.input_tokens if used else None, used.output_tokens if used else None)


adapter = adapter_for(SmolAgent, MultiStepAgent)
