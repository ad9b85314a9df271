"""``python -m benchmarks.adapters [NAME...]``: milliseconds that each adapter adds over its framework.

The framework's own call and the adapter's take turns in one process, with the fake model of the adapter's tests, which
answers at once: one call of a tool, then the answer. Runs from a clone, with the frameworks that are installed.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import uuid
import warnings
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import anyio
import click
import pytest

from benchmarks.report import figure_text, machine, table
from benchmarks.timing import Here, differences, in_turn, median
from jeeves_reflexion import Session, Task

_TESTS: Final = Path(__file__).parents[1] / "tests" / "adapters"
_PROMPT: Final = "What is in row 3?"
_LESSON: Final = "Count the rows of the table before you add them up."
_REPETITIONS: Final = 15

Bare = Callable[[Any], Awaitable[object]]


async def _google_adk(agent: Any) -> None:  # noqa: ANN401 - of a framework, here as below
    from google.adk.runners import InMemoryRunner  # noqa: PLC0415
    from google.genai import types  # noqa: PLC0415

    runner = InMemoryRunner(agent)
    name = uuid.uuid4().hex
    await runner.session_service.create_session(app_name=runner.app_name, user_id="user", session_id=name)
    message = types.Content(role="user", parts=[types.Part(text=_PROMPT)])
    async for _ in runner.run_async(user_id="user", session_id=name, new_message=message):
        pass


async def _llama_index(agent: Any) -> None:  # noqa: ANN401
    await agent.run(user_msg=_PROMPT)


async def _openai_agents(agent: Any) -> None:  # noqa: ANN401
    from agents import Runner  # noqa: PLC0415

    await Runner.run(agent, _PROMPT)


async def _crewai(agent: Any) -> None:  # noqa: ANN401
    await anyio.to_thread.run_sync(lambda: agent.kickoff(inputs={"prompt": _PROMPT}))


_BARE: Final[Mapping[str, Bare]] = {
    "agent_framework": lambda agent: agent.run(_PROMPT),
    "agno": lambda agent: agent.arun(_PROMPT),
    "autogen": lambda agent: agent.run(task=_PROMPT),
    "crewai": _crewai,
    "dspy": lambda agent: agent.acall(question=_PROMPT),
    "google_adk": _google_adk,
    "langgraph": lambda agent: agent.ainvoke({"messages": [("user", _PROMPT)]}),
    "llama_index": _llama_index,
    "openai_agents": _openai_agents,
    "pydantic_ai": lambda agent: agent.run(_PROMPT),
    "smolagents": lambda agent: anyio.to_thread.run_sync(agent.run, _PROMPT),
}


async def _measure(name: str, repetitions: int, calls: int) -> list[object]:
    """Return one line of the table. Raises pytest's ``skip.Exception`` where the framework is not installed."""
    tests = importlib.import_module(f"test_{name}")
    conformance = importlib.import_module("conformance")
    [framework] = {
        value.framework
        for value in vars(tests).values()
        if isinstance(value, type)
        and issubclass(value, conformance.Conformance)
        and hasattr(value, "framework")
    }
    bare_script, script = conformance.Script(conformance.LOOKS), conformance.Script(conformance.LOOKS)
    agent, adapted = framework.agent(bare_script), framework.adapted(script)
    session = Session(blocks={"reflexion_lessons": _LESSON})

    async def bare(number: int) -> None:
        # Agents that are made for each attempt are made for each call here, too.
        await _BARE[name](framework.agent(bare_script) if framework.factory else agent)

    async def ours(number: int) -> None:
        attempt = await adapted(Task(_PROMPT), session)
        if attempt.output != "It is 40.":
            raise RuntimeError(f"{name} did not do the task: {attempt}")

    taken = await in_turn({"bare": Here(bare), "ours": Here(ours)}, repetitions=repetitions, calls=calls)
    added = differences(taken["ours"], taken["bare"])
    return [
        name.replace("_", "-"),
        figure_text(median(taken["bare"]), scale=1000),
        figure_text(median(taken["ours"]), scale=1000),
        figure_text(added, scale=1000, sign=True),
    ]


@click.command()
@click.argument("names", nargs=-1)
@click.option(
    "--repetitions", default=_REPETITIONS, show_default=True, help="How often the sides take turns."
)
@click.option("--calls", default=20, show_default=True, help="Attempts of each side in a turn.")
def main(names: tuple[str, ...], repetitions: int, calls: int) -> None:
    """Print what each adapter adds over its framework."""
    os.environ.update(OPENAI_AGENTS_DISABLE_TRACING="1")
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    sys.path.insert(0, str(_TESTS))
    lines = []
    for name in [each.replace("-", "_") for each in names] or list(_BARE):
        if name not in _BARE:
            raise click.BadParameter(f"there is no adapter {name}; there are: {', '.join(_BARE)}")
        try:
            lines.append(anyio.run(_measure, name, repetitions, calls))
        except pytest.skip.Exception:
            click.echo(f"{name}: not installed", err=True)
    heads = ("framework", "its own call, ms (95 %)", "with the adapter, ms (95 %)", "added, ms (95 %)")
    click.echo(f"{machine()}; medians of {repetitions} turns of {calls} attempts with one call of a tool\n")
    click.echo(table(heads, lines))


if __name__ == "__main__":
    main()
