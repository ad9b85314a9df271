"""Agents of the OpenAI Agents SDK."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("agents.run")

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
from agents.run import CallModelData, ModelInputData
from conformance import (
    LESSON,
    LOOKS,
    OWN,
    Conformance,
    Framework,
    Script,
    Total,
    Turn,
    beside_a_learner,
    blocks,
    silent_learner,
)
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from jeeves_reflexion import ConfigurationError, Learner, Task
from jeeves_reflexion.adapters import adapt
from jeeves_reflexion.adapters.openai_agents import learner_options


class FakeModel(Model):
    """A model of the SDK that follows a script."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002 - the name that the SDK has
        *args: Any,
        **named: Any,
    ) -> ModelResponse:
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        replies = [
            each for each in items if each.get("role") == "assistant" or each.get("type") == "function_call"
        ]
        answered = len({each.get("id") for each in replies})
        turn = self._script.turn(system_instructions or "", json.dumps(items), answered)
        return ModelResponse(output=_items(turn, answered), usage=_usage(turn), response_id=None)

    def stream_response(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError


def _items(turn: Turn, answered: int) -> list[Any]:
    text = ResponseOutputText(annotations=[], text=turn.text, type="output_text", logprobs=[])
    name = f"turn{answered}"
    said = ResponseOutputMessage(
        id=name, content=[text], role="assistant", status="completed", type="message"
    )
    calls = [
        ResponseFunctionToolCall(
            id=name,
            call_id=f"{name}-{place}",
            name=tool,
            arguments=json.dumps(arguments),
            type="function_call",
        )
        for place, (tool, arguments) in enumerate(turn.calls)
    ]
    return [*([said] if turn.text else []), *calls]


def _usage(turn: Turn) -> Usage:
    if turn.usage is None:
        return Usage()
    given, made = turn.usage
    return Usage(requests=1, input_tokens=given, output_tokens=made, total_tokens=given + made)


class OpenAIAgents(Framework):
    """A model of the SDK's own interface is the fake."""

    def agent(self, script: Script, *, typed: bool = False, lessons: str = "") -> Any:
        given = (script.look, script.broken, script.record, script.dump, script.wait)
        tools = [function_tool(each) for each in given]
        output = Total if typed else None
        return Agent("clerk", instructions=OWN, model=FakeModel(script), tools=tools, output_type=output)


@pytest.fixture(autouse=True)
def no_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the SDK send no traces."""
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")


class TestOpenAIAgents(Conformance):
    """The common cases."""

    framework = OpenAIAgents()

    async def test_options_recall_before_a_run_and_learn_after_it(self) -> None:
        async def run(script: Script, learner: Learner, done: Any, prompt: str) -> object:
            agent = OpenAIAgents().agent(script)
            return (await Runner.run(agent, prompt, **learner_options(learner, done=done))).final_output

        await beside_a_learner(run)

    async def test_options_for_a_learner_serve_one_run(self) -> None:
        options = learner_options(silent_learner(), done=lambda *run: None)
        await Runner.run(OpenAIAgents().agent(Script(LOOKS)), "What is in row 3?", **options)
        with pytest.raises(ConfigurationError, match="one run"):
            await Runner.run(OpenAIAgents().agent(Script(LOOKS)), "What is in row 4?", **options)

    async def test_the_runners_limit_of_turns_keeps_the_steps(self) -> None:
        agent = adapt(OpenAIAgents().agent(Script(LOOKS)), max_turns=1)
        attempt = await agent(Task("What is in row 3?"), blocks())
        assert attempt.interrupted == "max_turns"
        assert attempt.output == "I look at the table."
        assert len(attempt.steps) == 1
        assert attempt.usage.tokens == 15

    async def test_a_tool_that_waits_for_a_persons_word_interrupts(self) -> None:
        script = Script(LOOKS)
        agent = OpenAIAgents().agent(script)
        agent.tools = [function_tool(script.look, needs_approval=True)]
        attempt = await adapt(agent)(Task("What is in row 3?"), blocks())
        assert (attempt.output, attempt.interrupted) == ("I look at the table.", "user_input")
        assert attempt.steps == ()

    async def test_a_filter_of_the_users_own_is_kept(self) -> None:
        async def shout(data: CallModelData[Any]) -> ModelInputData:
            return ModelInputData(data.model_data.input, f"{data.model_data.instructions} LOUD")

        script = Script(LOOKS)
        agent = adapt(OpenAIAgents().agent(script), run_config=RunConfig(call_model_input_filter=shout))
        await agent(Task("What is in row 3?"), blocks(LESSON))
        assert all(f"{OWN} LOUD" in shown and LESSON in shown for shown, _ in script.shown)

    async def test_an_agent_that_is_handed_the_task_has_the_lessons_too(self) -> None:
        second = Script((Turn(""), Turn("It is 41.")))
        other = OpenAIAgents().agent(second)
        other.name = "auditor"
        first = Script((Turn("", (("transfer_to_auditor", {}),)),))
        agent = OpenAIAgents().agent(first)
        agent.handoffs = [other]
        attempt = await adapt(agent)(Task("What is in row 3?"), blocks(LESSON))
        assert attempt.output == "It is 41."
        assert [step.action for step in attempt.steps] == ["handoff auditor"]
        assert [LESSON in shown for shown, _ in second.shown] == [True]

    def test_what_would_outlive_an_attempt_is_refused(self) -> None:
        agent = OpenAIAgents().agent(Script(LOOKS))
        for option in ("session", "previous_response_id", "conversation_id", "hooks"):
            with pytest.raises(ConfigurationError, match=option):
                adapt(agent, **{option: object()})

    async def test_an_agent_that_is_a_tool_has_the_lessons_and_is_charged(self) -> None:
        inner, outer = (
            Script((Turn("41."),)),
            Script((Turn("", (("ask", {"input": "Row 3?"}),)), Turn("It is 41."))),
        )
        agent = OpenAIAgents().agent(outer)
        agent.tools.append(OpenAIAgents().agent(inner).as_tool("ask", "Ask."))
        attempt = await adapt(agent)(Task("What is in row 3?"), blocks(LESSON))
        assert attempt.output == "It is 41."
        assert (attempt.usage.calls, attempt.usage.tokens) == (3, 45)
        assert [LESSON in shown for shown, _ in inner.shown] == [True]
