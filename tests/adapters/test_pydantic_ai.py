"""Agents of pydantic-ai."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

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
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelRetry,
    RunContext,
    TextPart,
    Tool,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.output import PromptedOutput
from pydantic_ai.usage import RequestUsage, RunUsage, UsageLimits

from jeeves_reflexion import Attempt, ConfigurationError, Learner, Task
from jeeves_reflexion.adapters import adapt
from jeeves_reflexion.adapters.pydantic_ai import LearnerCapability


class PydanticAI(Framework):
    """pydantic-ai's own ``FunctionModel`` is its fake model."""

    raises = True

    def agent(self, script: Script, *, typed: bool = False, lessons: str = "") -> Any:
        def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            answered = sum(isinstance(message, ModelResponse) for message in messages)
            seen = [part for m in messages if isinstance(m, ModelRequest) for part in m.parts]
            turn = script.turn(
                info.instructions or "", "\n".join(str(getattr(p, "content", "")) for p in seen), answered
            )
            usage = (
                RequestUsage(input_tokens=turn.usage[0], output_tokens=turn.usage[1]) if turn.usage else None
            )
            parts = [TextPart(turn.text)] if turn.text else []
            calls = [ToolCallPart(name, arguments) for name, arguments in turn.calls]
            return ModelResponse([*parts, *calls], usage=usage or RequestUsage(details={"none": 1}))

        output = PromptedOutput(Total) if typed else str
        model = FunctionModel(reply)
        tools = [script.look, script.broken, script.record, script.dump, script.wait]
        return Agent(model, instructions=OWN, tools=tools, output_type=output)  # type: ignore[call-overload]


class TestPydanticAI(Conformance):
    """The common cases."""

    framework = PydanticAI()

    async def test_a_capability_recalls_before_a_run_and_learns_after_it(self) -> None:
        shared = dict[bool, LearnerCapability]()

        async def run(script: Script, learner: Learner, done: Any, prompt: str) -> object:
            capability = shared.setdefault(done is None, LearnerCapability(learner, done=done))
            return (await PydanticAI().agent(script).run(prompt, capabilities=[capability])).output

        await beside_a_learner(run)

    async def test_usage_that_is_shared_is_counted_from_the_beginning_of_a_run(self) -> None:
        used, kept = RunUsage(requests=5, input_tokens=1000), list[tuple[Task, Attempt[Any], Any]]()
        capability = LearnerCapability(silent_learner(), done=lambda *run: kept.append(run))
        await PydanticAI().agent(Script(LOOKS)).run("Row 3?", capabilities=[capability], usage=used)
        attempts = [kept[0][1]]
        agent = adapt(PydanticAI().agent(Script(LOOKS)), usage=used)
        attempts += [await agent(Task("What is in row 3?"), blocks()) for _ in range(2)]
        assert [(each.usage.calls, each.usage.tokens) for each in attempts] == [(2, 30)] * 3

    async def test_a_tool_that_waits_for_a_persons_word_interrupts(self) -> None:
        script = Script(LOOKS)
        agent = Agent(
            PydanticAI().agent(script).model,
            tools=[Tool(script.look, requires_approval=True)],
            output_type=[str, DeferredToolRequests],
        )
        attempt = await adapt(agent)(Task("What is in row 3?"), blocks())
        assert (attempt.output, attempt.interrupted) == ("I look at the table.", "user_input")
        assert (attempt.value, attempt.steps) == (None, ())

    async def test_options_go_to_the_run(self) -> None:
        script = Script(LOOKS)
        limits = UsageLimits(request_limit=1)
        agent = adapt(PydanticAI().agent(script), usage_limits=limits, instructions="Be brief.")
        attempt = await agent(Task("What is in row 3?"), blocks(LESSON))
        assert attempt.interrupted == "max_turns"
        assert attempt.error is None
        assert len(attempt.steps) == 1
        [(instructions, _)] = script.shown
        assert "Be brief." in instructions
        assert LESSON in instructions

    def test_a_conversation_of_its_own_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="message_history"):
            adapt(PydanticAI().agent(Script(LOOKS)), message_history=[])

    async def test_a_tool_that_asks_for_another_try_is_a_failed_step(self) -> None:
        script = Script((Turn("", (("count", {}),)), Turn("It is 40.")))
        agent = PydanticAI().agent(script)

        @agent.tool_plain  # type: ignore[untyped-decorator]
        def count() -> str:
            raise ModelRetry("count again")

        attempt = await adapt(agent)(Task("What is in row 3?"), blocks())
        [step] = attempt.steps
        assert (step.action, step.failed) == ("count {}", True)
        assert "count again" in step.observation

    @pytest.mark.parametrize(
        ("kind", "said", "value", "output"),
        [
            (set[str], ["a"], {"a"}, '["a"]'),
            (date, "2026-01-02", date(2026, 1, 2), '"2026-01-02"'),
            (bool, True, True, "true"),
        ],
    )
    async def test_an_answer_of_any_type_is_kept(self, kind: Any, said: Any, value: Any, output: str) -> None:
        script = Script((Turn("", (("final_result", {"response": said}),)),))
        agent = Agent(PydanticAI().agent(script).model, output_type=kind)
        attempt = await adapt(agent)(Task("What is in row 3?"), blocks())
        assert (attempt.value, attempt.output, attempt.steps) == (value, output, ())

    async def test_an_agent_that_a_tool_asks_is_charged_where_it_shares_the_usage(self) -> None:
        inner = PydanticAI().agent(Script((Turn("It is 40."),)))
        agent = PydanticAI().agent(Script((Turn("", (("ask", {}),)), Turn("It is 40."))))

        @agent.tool  # type: ignore[untyped-decorator]
        async def ask(context: RunContext[None]) -> str:
            return str((await inner.run("Row 3?", usage=context.usage)).output)

        attempt = await adapt(agent)(Task("What is in row 3?"), blocks())
        assert (attempt.usage.calls, attempt.usage.tokens) == (3, 45)
