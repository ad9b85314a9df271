"""An agent without a model of ours as the reviser: what its prompt says, and what becomes of its answer."""

from __future__ import annotations

import itertools

import pytest
from tables import table

from jeeves_reflexion import (
    Attempt,
    ConfigurationError,
    ConvergenceReason,
    Evaluation,
    QualityCriterion,
    ReflectionPattern,
    Reflexion,
    Session,
    Task,
    Usage,
)
from jeeves_reflexion.agents import as_agent
from jeeves_reflexion.drafts import Draft, Revision, RevisionRequest
from jeeves_reflexion.revisers import AgentReviser

pytestmark = pytest.mark.anyio

TASK = Task("Describe the harbour.", expected_output="one paragraph")
OLD = "It has ten cranes.\n\tThe ferry  leaves at noon.\n"
EDIT = "<<<<<<< SEARCH\nIt has ten cranes.\n=======\nIt has twelve cranes.\n>>>>>>> REPLACE"
VERDICT = Evaluation(0.5, issues=("There are twelve cranes",), suggestions=("count them",))


class Callable:
    """A plain callable of a prompt: answers by a script, the last answer again; keeps what it was asked."""

    def __init__(self, *answers: str | Attempt | Exception) -> None:
        self.answers, self.prompts = answers, []

    async def __call__(self, task: Task, session: Session) -> Attempt:
        answer = self.answers[min(len(self.prompts), len(self.answers) - 1)]
        self.prompts.append(task.prompt)
        if isinstance(answer, Exception):
            raise answer
        return Attempt(answer) if isinstance(answer, str) else answer


async def revised(*answers, request=None, **settings) -> tuple[Revision, list[str]]:
    agent = Callable(*answers)
    verdict = request or RevisionRequest(Draft(1, OLD, VERDICT), VERDICT)
    return await AgentReviser(agent, **settings)(TASK, verdict), agent.prompts


async def test_the_prompt_has_the_task_first_then_draft_and_verdict_as_data():
    revision, (prompt,) = await revised("new", strategy="full_rewrite")
    assert (revision.output, revision.strategy, revision.addressed) == ("new", "full_rewrite", VERDICT.issues)
    assert prompt.startswith(TASK.prompt)
    assert prompt.count(TASK.prompt) == 1
    assert f"<draft>\n{OLD}\n</draft>" in prompt
    for said in ("There are twelve cranes", "count them", "one paragraph", "score 0.50"):
        assert said in prompt


async def test_r01_each_strategy_asks_in_words_of_its_own():
    prompts = {
        strategy: (await revised("new", strategy=strategy))[1][0]
        for strategy in ("full_rewrite", "incremental", "targeted_edit", "hybrid")
    }
    assert len(set(prompts.values())) == 4


async def test_r02_targeted_edits_leave_the_rest_byte_identical():
    revision, prompts = await revised(f"Here you are:\n{EDIT}", strategy="targeted_edit")
    assert (revision.output, revision.strategy) == (OLD.replace("ten", "twelve"), "targeted_edit")
    assert "<<<<<<< SEARCH" in prompts[0]


async def test_a_function_that_is_asked_for_edits_is_not_asked_for_the_form_of_the_answer():
    prompts = []

    async def agent(prompt: str) -> str:
        prompts.append(prompt)
        return EDIT

    request = RevisionRequest(Draft(1, OLD, VERDICT), VERDICT)
    await AgentReviser(as_agent(agent), strategy="targeted_edit")(TASK, request)
    assert prompts[0].count("one paragraph") == 1


async def test_an_edit_that_does_not_apply_is_asked_for_again_with_the_problem():
    revision, prompts = await revised(EDIT.replace("ten", "two"), EDIT, strategy="targeted_edit")
    assert revision.output == OLD.replace("ten", "twelve")
    assert "two cranes" in prompts[1]
    assert "could be applied" in prompts[1]
    revision, prompts = await revised("No.", "No.", "a whole text", strategy="targeted_edit")
    assert (revision.output, revision.strategy, len(prompts)) == ("a whole text", "incremental", 3)


@table("shown", [True, False])
async def test_c10_c11_the_past_is_shown_where_that_is_asked_for(shown):
    first = Draft(1, "the first draft", Evaluation(0.1, issues=("no mole",)))
    second = Draft(2, OLD, VERDICT)
    _, (prompt,) = await revised(
        "new",
        request=RevisionRequest(second, VERDICT, history=(first, second)),
        include_prior_versions=shown,
        include_reflection_history=shown,
    )
    assert ("the first draft" in prompt) is shown
    assert ("no mole" in prompt) is shown


async def test_c12_the_limit_of_tokens_is_told():
    _, (prompt,) = await revised(
        "new", request=RevisionRequest(Draft(1, OLD, VERDICT), VERDICT, max_tokens=77)
    )
    assert "77 tokens" in prompt


async def test_an_agent_that_answers_nothing_keeps_the_draft_and_says_why():
    revision, prompts = await revised(Attempt(error="no ink", usage=Usage(1, 5)))
    assert (revision.output, len(prompts), revision.usage) == (OLD, 2, Usage(2, 10))
    assert "no ink" in revision.problems[0]
    with pytest.raises(ValueError, match="no pen"):
        await revised(ValueError("no pen"))


def test_an_unknown_strategy_is_named():
    with pytest.raises(ConfigurationError, match="polish"):
        AgentReviser(Callable(""), strategy="polish")


# -- in the pattern, with a callable that shows no model


def scores(*values, issues=("it is dull",)):
    left = itertools.chain(values, itertools.repeat(values[-1]))

    def judge(output: str) -> Evaluation:
        return Evaluation(next(left), issues=issues)

    return [QualityCriterion("taste", evaluator="function", evaluator_config={"function": judge})]


def asking(*answers):
    prompts = []

    def agent(prompt: str) -> str:
        prompts.append(prompt)
        return answers[min(len(prompts), len(answers)) - 1]

    return agent, prompts


@table("history", [True, False])
@table("strategy", ["full_rewrite", "incremental", "hybrid"])
async def test_f02_after_a_regression_the_next_prompt_is_another(strategy, history):
    agent, prompts = asking("first", "second", "third", "fourth")
    pattern = ReflectionPattern(
        quality_criteria=scores(0.6, 0.3, 0.3, 0.9),
        revision_strategy=strategy,
        include_reflection_history=history,
        plateau_iterations=3,
    )
    result = await pattern.execute(agent, "Write.")
    assert result.best_output == "fourth"
    assert all("<draft>\nfirst\n</draft>" in prompt for prompt in prompts[1:])
    assert len(set(prompts)) == 4
    assert ["made it worse" in prompt for prompt in prompts] == [False, False, True, True]


async def test_targeted_edits_reach_a_callable_and_are_applied():
    agent, _ = asking(OLD, EDIT)
    pattern = ReflectionPattern(quality_criteria=scores(0.6, 0.9), revision_strategy="targeted_edit")
    result = await pattern.execute(agent, "Describe the harbour.")
    assert result.best_output == OLD.replace("ten", "twelve")
    assert [version.strategy for version in result.history.versions] == [None, "targeted_edit"]


async def test_what_a_callable_is_shown_of_the_past_is_what_was_asked_for():
    shown = {}
    for wanted in (True, False):
        agent, prompts = asking("first draft", "second draft", "third draft")
        pattern = ReflectionPattern(
            quality_criteria=scores(0.3, 0.5, 0.9),
            include_prior_versions=wanted,
            include_reflection_history=wanted,
        )
        await pattern.execute(agent, "Write.")
        shown[wanted] = ("first draft" in prompts[2], "score 0.30" in prompts[2])
    assert shown == {True: (True, True), False: (False, False)}


async def test_c12_revisions_that_report_no_tokens_are_estimated():
    agent, prompts = asking("short", *(f"{n} {'word ' * 40}" for n in range(9)))
    pattern = ReflectionPattern(
        quality_criteria=scores(*(n / 20 for n in range(12))), max_revision_tokens=100, max_iterations=9
    )
    result = await pattern.execute(agent, "Write.")
    assert result.convergence_reason is ConvergenceReason.TOKEN_BUDGET
    assert 1 <= result.iterations_used < 4
    assert "100 tokens" in prompts[1]


async def test_within_the_outer_loop_the_usage_is_counted_once():
    async def agent(task: Task, session: Session) -> Attempt:
        return Attempt("good" if "<draft>" in task.prompt else "bad", usage=Usage(1, 10))

    pattern = ReflectionPattern(quality_criteria=scores(0.2, 0.9))

    async def reflect(task, trials):
        return "Never needed."

    result = await Reflexion(
        pattern.wrap(agent), evaluator=lambda output: output == "good", reflector=reflect
    ).run("Write.")
    assert (result.output, result.usage["agent"]) == ("good", Usage(2, 20))
    assert pattern.get_best_version().output == "good"
