"""The prompts of the protocol's runs, as they reach the model, and their digests.

The agents and reflectors of the benchmarks play made-up tasks, so that any change of a file, note or form changes a
digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from jeeves_reflexion import (
    Attempt,
    Evaluation,
    LessonReflector,
    Message,
    Reflection,
    ScriptedModel,
    Session,
    Step,
    Task,
    Trial,
)
from jeeves_reflexion.experiments.arms import last_attempt, tried_actions

from ..alfworld.agent import DIALECT
from ..alfworld.games import KINDS
from ..alfworld.model_player import ModelPlayer
from ..hotpotqa.agent import ReActAgent
from ..hotpotqa.questions import Page
from ..humaneval.agent import PREVIOUS_BLOCK, RESULTS_BLOCK, CodeAgent, metadata_of, prompt_text
from ..humaneval.evaluator import ModelTests
from ..report import table

_LESSONS: Final = Session(blocks={"reflexion_lessons": "- Read the question once more."})
_QUESTION: Final = Task("Who is the mayor of Tamsin?", id="q", kind="bridge")
_PAGES: Final = {"q": (Page("Tamsin", ("Tamsin is a town.", " Its mayor is Bram Holt.")),)}
_PROBLEM: Final = Task('def add1(x):\n    """Return x plus 1."""\n', id="p", metadata=metadata_of("add1"))
_TRIAL: Final = Trial(
    1,
    Attempt("Oslo", (Step("It is a town.", "Search[Tamsin]", "Tamsin is a town."),)),
    Evaluation(0.0, passed=False, rationale="It is not the answer."),
    reflection=Reflection("Read the page to its end."),
)


async def prompts() -> dict[str, str]:
    """Return the prompts, by purpose."""
    heard: list[str] = []

    def reply(messages: Sequence[Message]) -> str:
        heard.append(json.dumps([[each.role, each.content] for each in messages], ensure_ascii=False))
        return "Action: Search[Tamsin]" if len(heard) == 1 else "Action: Finish[Bram Holt]"

    model, found = ScriptedModel(reply, name="made up"), {}
    later = replace(
        _LESSONS, blocks={**_LESSONS.blocks, PREVIOUS_BLOCK: "def add1(x): ...", RESULTS_BLOCK: "x"}
    )
    coder, answerer = CodeAgent(model, temperature=0.0), ReActAgent(model, _PAGES)
    asked: dict[str, Callable[[], Awaitable[object]]] = {
        "humaneval, first try": lambda: coder(_PROBLEM, Session()),
        "humaneval, later tries": lambda: coder(_PROBLEM, later),
        "humaneval, own tests": lambda: ModelTests(model)(_PROBLEM),
        "humaneval, reflection": lambda: LessonReflector(model, prompt=prompt_text("reflect.md"))(
            _PROBLEM, [_TRIAL]
        ),
        "hotpotqa, try with lessons": lambda: answerer(_QUESTION, _LESSONS),
        **{f"alfworld, {kind}": _moves(model, kind) for kind in KINDS},
        "hotpotqa and alfworld, reflection": lambda: LessonReflector(model)(_QUESTION, [_TRIAL]),
    }
    for name, ask in asked.items():
        heard.clear()
        await ask()
        found[name] = "\n".join(heard)
    shown = {"the arm last-attempt": last_attempt([_TRIAL]), "the arm tabu-retry": tried_actions([_TRIAL])}
    return {**found, **shown}


def _moves(model: ScriptedModel, kind: str) -> Callable[[], Awaitable[object]]:
    """Return a function that makes two moves in a game of that type; the second prompt has the first move's answer."""
    player = ModelPlayer(model, Task("A game.", kind=kind, metadata={DIALECT: "put"}), _LESSONS)

    async def play() -> None:
        for observation in ("You are in the middle of a room. Your task is to: do it.", "Nothing happens."):
            await player.next(observation)

    return play


def digests(told: dict[str, str]) -> dict[str, str]:
    """Return the first 16 hexadecimal digits of the SHA-256 of each."""
    return {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in told.items()}


def prompts_table(told: dict[str, str]) -> str:
    """Return the digests as a table."""
    return table(
        ("prompt", "characters", "SHA-256"), [(n, len(told[n]), f"`{d}`") for n, d in digests(told).items()]
    )
