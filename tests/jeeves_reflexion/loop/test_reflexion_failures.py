"""What becomes of what agent, evaluator and reflector raise: a bug ends the run, all else is shown once and kept."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_parts import Ear, Grader, Player, Writer
from tables import table

from jeeves_reflexion import Attempt, MissingDependencyError, Reflexion, VectorLessonStore
from jeeves_reflexion.errors import described, programming_error
from vectorstores import HashingEmbedder, InMemoryVectorStore

pytestmark = pytest.mark.anyio

BUGS = [
    TypeError("'NoneType' object is not callable"),
    AttributeError("no attribute 'outptu'"),
    NameError("name 'anwser' is not defined"),
    UnboundLocalError("local variable 'x'"),
    ImportError("cannot import name 'Agnet'"),
    ModuleNotFoundError("No module named 'jeves'"),
    NotImplementedError("later"),
]
OTHERS = [
    OSError("no route"),
    ValueError("not a number"),
    KeyError("choices"),
    RuntimeError("x"),
    SyntaxError("x"),
]


def raising(error: Exception, part: str, turn: int = 1):
    """Return the parts of a loop, one of which raises in one of its turns."""
    agent, grader = Player("a"), Grader(0.0)
    writer = Writer()
    if part == "agent":
        agent = Player(*["a"] * (turn - 1), error)
    elif part == "evaluator":
        grader = Grader(*[0.0] * (turn - 1), error)
    else:

        def say(number: int) -> str:
            if number >= turn:
                raise error
            return "look left before you go"

        writer = Writer(say)
    return agent, grader, writer


def loop(parts, **settings) -> Reflexion:
    agent, grader, writer = parts
    return Reflexion(agent, evaluator=grader, reflector=writer, **settings)


def store() -> VectorLessonStore:
    return VectorLessonStore(InMemoryVectorStore(HashingEmbedder(), namespace="tests"))


@table("part", ["agent", "evaluator", "reflector"])
@table("grouped", [False, True])
@table("error", BUGS)
async def test_a_programming_error_in_the_first_attempt_ends_the_run_as_itself(part, grouped, error):
    raised = ExceptionGroup("tasks", [OSError("x"), ExceptionGroup("inner", [error])]) if grouped else error
    lessons = store()
    with pytest.raises(type(error)) as caught:
        await loop(raising(raised, part), lesson_store=lessons).run("find the key")
    assert caught.value is error
    assert await lessons.count() == 0


@table("part", ["agent", "evaluator", "reflector"])
async def test_later_it_is_a_failed_attempt_that_teaches_nothing(part):
    lessons, ear, turn = store(), Ear(), 2
    reflexion = loop(raising(BUGS[0], part, turn), lesson_store=lessons)
    result = await reflexion.run("find the key", session=reflexion.session(listener=ear))
    assert result.stop_reason in ("max_attempts", "unscorable")
    assert result.problems == (f"the {part} failed: TypeError: 'NoneType' object is not callable",)
    assert all(trial.reflection is None for trial in result.trials[turn - 1 :])
    assert len(result.lessons) == turn - 1
    assert all("NoneType" not in lesson.text for lesson in result.lessons)
    assert "lesson_dropped" in ear.kinds
    assert "warned" in ear.kinds


@table("part", ["agent", "evaluator", "reflector"])
@table("error", OTHERS)
async def test_every_other_exception_stays_an_attempt_is_shown_once_and_stands_in_the_result(
    part, error, caplog
):
    caplog.clear()
    result = await loop(raising(error, part)).run("find the key")
    problem = f"the {part} failed: {described(error)}"
    assert result.problems == (problem,)
    shown = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [problem in record.getMessage() for record in shown] == [True]
    assert (result.trials[0].reflection is not None) is (part == "agent")


async def test_a_missing_extra_is_raised_as_before():
    with pytest.raises(MissingDependencyError):
        await loop(raising(MissingDependencyError("a plot", "plot"), "agent", 2)).run("find the key")


async def test_what_an_agent_says_of_a_bug_itself_is_learned_from():
    result = await loop((Player(Attempt(error="NameError: x")), Grader(0.0), Writer())).run("find the key")
    assert result.trials[0].reflection is not None


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@table("part", ["agent", "evaluator", "reflector"])
async def test_an_exception_without_a_text_is_one_all_the_same(part):
    result = await loop(raising(UnreadableError(), part)).run("find the key")
    assert result.problems == (f"the {part} failed: UnreadableError: (its text can't be read: RuntimeError)",)
    assert result.stop_reason in ("max_attempts", "unscorable")


async def test_no_key_gets_into_the_log_or_the_result(caplog):
    secret = "sk-proj-" + "aB3dE5gH7jK9mN1pQ3sT5vW7xY9zA1bC3dE5fG7h"
    result = await loop(raising(OSError(f"key {secret}"), "agent")).run("find the key")
    assert secret not in caplog.text + repr(result.problems) + str(result.trials[0].attempt.error)


@given(st.recursive(st.sampled_from([*BUGS, *OTHERS]), lambda inner: st.lists(inner, min_size=1, max_size=3)))
def test_a_bug_is_found_at_any_depth_of_a_group(tree):
    def group(item):
        return ExceptionGroup("tasks", [group(each) for each in item]) if isinstance(item, list) else item

    def leaves(item):
        return [leaf for each in item for leaf in leaves(each)] if isinstance(item, list) else [item]

    bugs = [leaf for leaf in leaves(tree) if leaf in BUGS]
    assert programming_error(group(tree)) is (bugs[0] if bugs else None)


SCRIPT = """
from jeeves_reflexion import Reflexion

def agent(prompt):
    {body}

result = Reflexion(agent, evaluator=lambda output: 0.0, reflector=lambda task, trials: "look left").run_sync("x")
print(repr(result.output), result.stop_reason)
"""


def script(body: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", SCRIPT.format(body=body)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_script_without_logging_ends_with_a_typo():
    ended = script("return promt.upper()")
    assert ended.returncode == 1
    assert ended.stderr.rstrip().splitlines()[-1].startswith("NameError: name 'promt' is not defined")


def test_a_script_without_logging_shows_an_exception_once():
    ended = script("raise OSError('no route to host')")
    assert ended.stdout == "'' max_attempts\n"
    assert ended.stderr.count("the agent failed: OSError: no route to host") == 1
