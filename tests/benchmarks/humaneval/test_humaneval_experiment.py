"""Reflexion for code, whole: own tests judge, hidden tests score, and nothing of the latter comes back."""

import shutil

import pytest

from benchmarks.humaneval.agent import CodeAgent, prompt_text
from benchmarks.humaneval.checking import OwnTestRunner
from benchmarks.humaneval.evaluator import ModelTests, OracleEvaluator, OwnTestsEvaluator, docstring_source
from benchmarks.humaneval.experiment import Setting, confusion, run, task_of
from benchmarks.humaneval.problems import load_problems
from benchmarks.humaneval.scoring import HiddenTests
from jeeves_reflexion import Attempt, ConfigurationError, ScriptedModel, Session
from jeeves_reflexion.experiments import Plan
from vectorstores import HashingEmbedder

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("shut_in")]

WRONG = {
    "double": "def double(n):\n    return n + 2",
    "shout": "def shout(words):\n    return [w.upper() for w in words]",
}
RIGHT = {
    "double": "def double(n):\n    return n * 2",
    "shout": "def shout(words):\n    return [w.upper() for w in sorted(words, key=len, reverse=True)]",
}
TESTS = {
    "double": "```python\nassert double(2) == 4\nassert double(5) == 10\nassert double(\n```",
    "shout": "assert shout(['a']) == ['A']",  # too weak: a false positive
}


def scripted(*, tests=TESTS, first=WRONG, then=RIGHT):
    """A model that writes tests, a first version, lessons, and a better version when it sees what failed."""

    def reply(messages):
        system, user = messages[0].content, messages[-1].content
        name = "double" if "def double" in user else "shout"
        if system == prompt_text("tests.md"):
            return tests[name]
        if system == prompt_text("reflect.md"):
            return f"In {name} the result must be a product: multiply instead of adding a constant."
        improved = "previous_implementation" in user
        return f"```python\n{(then if improved else first)[name]}\n```"

    return ScriptedModel(reply)


def solved(results, arm):
    return [point.share.successes for point in results.curve(arm, by="oracle").points]


def setting(tmp_path, problems, *, judge="self", **options):
    plan = options.pop("plan", Plan(("retry", "reflexion"), 3, (0,), 2, 3, judged_by=judge))
    return Setting(plan=plan, out=tmp_path / "run", embedder=HashingEmbedder(), problems=problems, **options)


async def test_self_judged_by_tests_of_the_model(tmp_path, tiny):
    model = scripted()
    done = await run(setting(tmp_path, load_problems(tiny), model=model, tests="model"), say=str)
    assert solved(done, "retry") == [0, 0, 0]
    assert solved(done, "reflexion") == [0, 1, 1]
    own = confusion(done, "reflexion")
    assert [own.count(own=True, hidden=right) for right in (True, False)] == [
        1,
        1,
    ]  # double is mended, shout was let through
    assert str(own.wrong_among_passed.value) == "0.5"
    retry = confusion(done, "retry")
    assert [retry.count(own=said, hidden=False) for said in (True, False)] == [1, 1]
    asked = [message.content for call in model.calls for message in call.messages]
    assert not any("HIDDEN" in text or "42" in text for text in asked)
    assert any("assert double(5) == 10 # output: 7" in text for text in asked)
    assert (
        sum(call.messages[0].content == prompt_text("tests.md") for call in model.calls) == 2
    )  # once a problem
    lessons = [text for text in asked if "multiply instead of adding" in text]
    assert lessons
    first = {(row.task.id, row.trial.passed, row.scored.passed) for row in done.rows if row.trial.number == 1}
    assert first == {("Tiny/double", False, False), ("Tiny/shout", True, False)}
    assert not any("HIDDEN" in path.read_text() for path in (tmp_path / "run").glob("*.json*"))


async def test_oracle_judged_goes_on_until_the_hidden_tests_pass_and_tells_nothing_of_them(tmp_path, tiny):
    model = scripted()
    done = await run(setting(tmp_path, load_problems(tiny), model=model, judge="oracle"), say=str)
    assert solved(done, "reflexion") == [0, 2, 2]
    assert done.judged_by == "oracle"
    asked = [message.content for call in model.calls for message in call.messages]
    assert not any("HIDDEN" in text for text in asked)
    assert any("did not pass the hidden tests" in text for text in asked)


async def test_the_evaluators_on_one_attempt(tiny):
    problem = load_problems(tiny)[0]
    task = task_of(problem)
    own = OwnTestsEvaluator(docstring_source, OwnTestRunner())
    assert task.public().reference is None
    wrong = await own(task, Attempt("def double(n):\n    return 3"))
    assert (wrong.score, wrong.passed) == (0.0, False)
    assert wrong.issues == ("assert double(2) == 4 # output: 3",)
    assert wrong.public(task.reference) == wrong  # nothing in it is gold
    assert (
        await own(task, Attempt("def double(n):\n    return 4"))
    ).passed  # its own tests can't know better
    oracle = OracleEvaluator({problem.id: problem}, HiddenTests())
    assert not (await oracle(task, Attempt("def double(n):\n    return 4"))).passed
    assert (await oracle(task, Attempt(RIGHT["double"]))).score == 1.0


async def test_without_tests_what_can_be_loaded_is_handed_in_without_a_score(tiny):
    task = task_of(load_problems(tiny)[1])
    own = OwnTestsEvaluator(docstring_source, OwnTestRunner())
    loaded = await own(task, Attempt(WRONG["shout"]))
    assert (loaded.score, loaded.passed) == (None, True)
    for broken in ("", "def shout(:"):
        assert (await own(task, Attempt(broken))).passed is False


async def test_tests_of_a_model_are_kept_for_a_run_that_goes_on(tmp_path, tiny):
    task = task_of(load_problems(tiny)[0]).public()
    model = scripted()
    written = await ModelTests(model, path=tmp_path / "tests.jsonl")(task)
    assert [test.source for test in written] == ["assert double(2) == 4", "assert double(5) == 10"]
    silent = ScriptedModel([])
    assert await ModelTests(silent, path=tmp_path / "tests.jsonl")(task) == written
    (tmp_path / "tests.jsonl").write_text("{}\n")
    with pytest.raises(ConfigurationError, match="line 1"):
        ModelTests(silent, path=tmp_path / "tests.jsonl")


async def test_an_agent_sees_the_head_and_what_its_session_holds(tiny):
    task = task_of(load_problems(tiny)[0]).public()
    model = scripted()
    agent = CodeAgent(model, temperature=0.0)
    await agent(task, Session())
    blocks = {
        "previous_implementation": "def double",
        "test_results": "failed",
        "reflexion_lessons": "- Multiply.",
    }
    await agent(task, Session(blocks=blocks))
    head, rewritten = model.calls
    assert head.messages[-1].content == task.prompt
    assert "<test_results>\nfailed\n</test_results>" in rewritten.messages[-1].content
    assert "- Multiply." in rewritten.messages[0].content
    assert "- Multiply." not in rewritten.messages[-1].content


async def test_a_killed_run_goes_on_as_if_nothing_had_happened(tmp_path, tiny):
    """The previous implementation comes from the history, so that it is there after a resumption, too."""
    problems = load_problems(tiny)
    whole = await run(setting(tmp_path / "whole", problems, model=scripted(), tests="model"), say=str)
    folder = tmp_path / "part" / "run"
    shutil.copytree(tmp_path / "whole" / "run", folder)
    lines = (folder / "journal.jsonl").read_text().splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if '"arm": "reflexion"' in line and '"trial": 2' in line)
    (folder / "journal.jsonl").write_text("".join(lines[:first]))
    silent = ScriptedModel([])  # all replies are in the folder: none is asked for again
    again = await run(setting(tmp_path / "part", problems, model=silent, tests="model", resume=True), say=str)
    assert solved(again, "reflexion") == solved(whole, "reflexion") == [0, 1, 1]
    assert not silent.calls


async def test_only_arms_with_memory_see_the_attempt_before(tmp_path, tiny):
    model = scripted()
    plan = Plan(("react", "retry", "last-attempt"), 2, (0,), 1, 3, judged_by="self")
    await run(setting(tmp_path, load_problems(tiny), model=model, tests="model", plan=plan), say=str)
    systems = [call.messages[0].content.split("\n\n<")[0] for call in model.calls]
    assert sum(text.startswith(prompt_text("rewrite.md")) for text in systems) == 1  # double, by last-attempt
    assert prompt_text("reflect.md") not in systems
    (rewriting,) = (
        call for call in model.calls if call.messages[0].content.startswith(prompt_text("rewrite.md"))
    )
    shown = "\n".join(message.content for message in rewriting.messages)
    assert shown.count("return n + 2") == 1, "its last attempt is shown once"


async def test_a_run_without_a_problem_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="no problem"):
        setting(tmp_path, [], model=scripted())
