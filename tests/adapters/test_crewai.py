"""Crews and agents of CrewAI."""

from __future__ import annotations

import importlib.util
import json
import os
from typing import Any

import pytest

if importlib.util.find_spec("crewai") is None:
    pytest.skip("crewai is not installed", allow_module_level=True)
# Before CrewAI is imported: nothing is sent, nothing is asked.
os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_TRACING_ENABLED="false", OTEL_SDK_DISABLED="true")
pytest.importorskip("crewai.hooks")

from conformance import LESSON, LOOKS, OWN, Conformance, Framework, Script, Total, Turn, blocks
from crewai import Agent, BaseLLM, Crew, Flow
from crewai import Task as CrewTask
from crewai.flow.flow import listen, start
from crewai.llms.base_llm import LLMCallType
from crewai.tools import tool
from pydantic import PrivateAttr

from jeeves_reflexion import ConfigurationError, Session, Task
from jeeves_reflexion.adapters import adapt


class FakeModel(BaseLLM):
    """A model of CrewAI that follows a script."""

    _script: Any = PrivateAttr(default=None)

    def call(self, messages: Any, *args: Any, **named: Any) -> Any:
        system = "\n".join(str(message["content"]) for message in messages if message["role"] == "system")
        rest = "\n".join(str(message["content"]) for message in messages if message["role"] != "system")
        answered = sum(message["role"] == "assistant" for message in messages)
        turn = self._script.turn(system, rest, answered)
        calls = [
            {
                "id": f"c{answered}-{i}",
                "type": "function",
                "function": {"name": n, "arguments": json.dumps(a)},
            }
            for i, (n, a) in enumerate(turn.calls)
        ]
        usage = None
        if turn.usage:
            given, made = turn.usage
            usage = {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
        said = calls or turn.text
        kind = LLMCallType.TOOL_CALL if calls else LLMCallType.LLM_CALL
        self._emit_call_completed_event(said, kind, usage=usage)
        return said

    def supports_function_calling(self) -> bool:
        return True

    def get_context_window_size(self) -> int:
        return 100_000


def model(script: Script) -> FakeModel:
    made = FakeModel(model="fake")
    made._script = script
    return made


def clerk(script: Script, lessons: str) -> Agent:
    given = (script.look, script.broken, script.record, script.dump)
    tools = [*map(tool, given), tool("wait")(script.wait_in_thread)]
    story = f"{OWN}\n\n{lessons}"
    return Agent(
        role="clerk", goal="Be right.", backstory=story, llm=model(script), tools=tools, max_retry_limit=0
    )


class CrewAI(Framework):
    """A crew of one agent and one task."""

    factory = True
    threads = True
    speaks = False

    def agent(self, script: Script, *, typed: bool = False, lessons: str = "") -> Any:
        agent = clerk(script, lessons)
        form = Total if typed else None
        task = CrewTask(
            description="{prompt}", expected_output="An answer.", agent=agent, output_pydantic=form
        )
        return Crew(agents=[agent], tasks=[task], cache=False)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # its own use of itself
class TestCrewAI(Conformance):
    """The common cases."""

    framework = CrewAI()

    async def test_an_agent_by_itself_works_too(self) -> None:
        script = Script(LOOKS)
        adapted = adapt(lambda lessons: clerk(script, lessons), response_format=None)
        attempt = await adapted(Task("What is in row 3?"), blocks(LESSON))
        assert attempt.output == "It is 40."
        assert [step.observation for step in attempt.steps] == ["row 3 holds 40"]
        assert attempt.usage.tokens == 30
        assert all(LESSON in shown for shown, _ in script.shown)

    async def test_further_inputs_go_to_the_crew_and_braces_of_a_prompt_stay(self) -> None:
        script = Script((Turn("It is 40."),))

        def make(lessons: str) -> Crew:
            agent = clerk(script, lessons)
            task = CrewTask(description="{prompt} Year: {year}", expected_output="An answer.", agent=agent)
            return Crew(agents=[agent], tasks=[task])

        await adapt(make, year="1999")(Task("What is in {row} of {prompt}?"), blocks())
        [(_, asked)] = script.shown
        assert "What is in {row} of {prompt}? Year: 1999" in asked

    async def test_a_crew_without_a_place_for_the_prompt_is_an_error_that_says_what_to_write(self) -> None:
        def make(lessons: str) -> Crew:
            agent = clerk(Script(LOOKS), lessons)
            return Crew(
                agents=[agent], tasks=[CrewTask(description="Add.", expected_output="A sum.", agent=agent)]
            )

        with pytest.raises(ConfigurationError, match=r"has \{prompt\} in its description"):
            await adapt(make)(Task("What is in row 3?"), Session())

    async def test_two_agents_of_a_crew_share_one_trace(self) -> None:
        first, second = Script(LOOKS), Script((Turn("40, checked."),))

        def make(lessons: str) -> Crew:
            agents = [clerk(first, lessons), clerk(second, lessons)]
            tasks = [
                CrewTask(description=text, expected_output="An answer.", agent=agent)
                for text, agent in zip(("{prompt}", "Check it."), agents, strict=True)
            ]
            return Crew(agents=agents, tasks=tasks)

        attempt = await adapt(make)(Task("What is in row 3?"), blocks(LESSON))
        assert attempt.output == "40, checked."
        assert len(attempt.steps) == 1
        assert attempt.usage.tokens == 45

    async def test_a_flow_has_the_prompt_in_its_state_and_answers_what_its_last_method_does(self) -> None:
        script = Script(LOOKS)

        class Report(Flow[Any]):
            lessons = ""

            @start()
            def work(self) -> str:
                return str(
                    clerk(script, self.lessons).kickoff(f"{self.state['prompt']} {self.state['year']}").raw
                )

            @listen(work)
            def report(self, said: str) -> str:
                return f"Report: {said}"

        def make(lessons: str) -> Report:
            flow = Report()
            flow.lessons = lessons
            return flow

        attempt = await adapt(make, year="1999")(Task("What is in row 3?"), blocks(LESSON))
        assert attempt.output == "Report: It is 40."
        assert [step.observation for step in attempt.steps] == ["row 3 holds 40"]
        assert attempt.usage.tokens == 30
        assert all(LESSON in told and "What is in row 3? 1999" in asked for told, asked in script.shown)

    async def test_what_the_model_raises_is_raised(self) -> None:
        class RefusedError(RuntimeError):
            """What an endpoint may say."""

        script = Script(())

        def refuse(*args: Any) -> Turn:
            raise RefusedError("content filter")

        script.turn = refuse  # type: ignore[method-assign]
        with pytest.raises(RefusedError, match="content filter"):
            await adapt(lambda lessons: clerk(script, lessons))(Task("What is in row 3?"), blocks())

    def test_a_crew_by_itself_is_an_error_that_says_what_to_write(self) -> None:
        with pytest.raises(ConfigurationError, match="lambda lessons: Crew"):
            adapt(CrewAI().agent(Script(LOOKS)))
