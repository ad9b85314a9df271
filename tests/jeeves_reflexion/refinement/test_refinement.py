"""The inner loop: phases, bounds, what it returns, and what goes wrong. Ids are those of the checklist."""

from itertools import pairwise

import anyio
import pytest
from refinement_parts import TASK, Author, Editor, Judge, loop, text, used
from tables import table

from jeeves_reflexion import (
    Attempt,
    Budget,
    BudgetExceededError,
    Completion,
    ConfigurationError,
    ConvergenceReason,
    Evaluation,
    ModelAuthError,
    ModelConnectionError,
    QualityCriterion,
    Refinement,
    RefinementOptions,
    Reflexion,
    ScriptedModel,
    Session,
    Spend,
    Task,
    Triggers,
    Usage,
)
from jeeves_reflexion.evaluators import CriteriaEvaluator
from jeeves_reflexion.models.ask import ask
from jeeves_reflexion.refinement.convergence import Convergence
from jeeves_reflexion.refinement.options import Decision
from jeeves_reflexion.types import UNKNOWN_USAGE

pytestmark = pytest.mark.anyio
REASON = ConvergenceReason


def scores(refined):
    return [draft.evaluation.score for draft in refined.drafts]


async def test_l01_writer_judge_and_reviser_work_in_that_order():
    author, judge, editor = Author("one"), Judge(0.5, 0.9), Editor("two")
    refined = await loop(judge, author=author, editor=editor).refine(TASK)
    assert (judge.judged, [r.draft.output for r in editor.requests]) == (["one", "two"], ["one"])
    assert [draft.output for draft in refined.drafts] == ["one", "two"]
    assert refined.reason is REASON.QUALITY_MET
    assert refined.best.revision.addressed == refined.drafts[0].evaluation.issues


async def test_l02_a_satisfactory_first_draft_is_not_revised():
    editor = Editor()
    refined = await loop(Judge(0.8), editor=editor).refine(TASK)
    assert (refined.reason, len(refined.drafts), editor.requests) == (REASON.QUALITY_MET, 1, [])


async def test_l03_the_reviser_gets_the_verdict():
    verdict = Evaluation(0.3, issues=("too long",), suggestions=("cut the second line",))
    editor = Editor()
    await loop(Judge(verdict, 0.9), editor=editor).refine(TASK)
    assert editor.requests[0].feedback == verdict


@table("drafts", [1, 2, 5])
async def test_l04_l05_the_bound_holds_and_the_best_is_returned(drafts):
    judge = Judge(0.1, 0.3, 0.7, 0.2, 0.75)
    options = RefinementOptions(convergence=None)
    refined = await loop(judge, max_drafts=drafts, options=options).refine(TASK)
    assert refined.reason is REASON.MAX_ITERATIONS
    assert len(refined.drafts) == drafts
    assert refined.best.evaluation.score == max(scores(refined))
    assert not refined.best.satisfactory


async def test_l07_one_object_serves_many_runs_at_once():
    class ByTask:
        async def __call__(self, task, attempt):
            await anyio.sleep(0.001)
            return Evaluation(0.9 if attempt.output.count(task.prompt) == 3 else 0.5)

    class Repeat:
        async def __call__(self, task, request):
            from jeeves_reflexion.drafts import Revision

            await anyio.sleep(0.001)
            return Revision(f"{request.draft.output} {task.prompt}", "incremental")

    async def echo(task: Task, session: Session) -> Attempt:
        return Attempt(task.prompt)

    inner = Refinement(echo, evaluator=ByTask(), reviser=Repeat())
    found = {}

    async def run(name: str) -> None:
        found[name] = await inner.refine(Task(name))

    async with anyio.create_task_group() as tasks:
        for name in ("ab", "cd", "ef"):
            tasks.start_soon(run, name)
    assert {name: refined.best.output for name, refined in found.items()} == {
        name: f"{name} {name} {name}" for name in ("ab", "cd", "ef")
    }


async def test_c12_revisions_stop_when_their_tokens_are_used_up():
    editor = Editor(tokens=40)
    options = RefinementOptions(max_revision_tokens=70)
    refined = await loop(Judge(0.1, 0.3, 0.6), editor=editor, max_drafts=9, options=options).refine(TASK)
    assert refined.reason is REASON.TOKEN_BUDGET
    assert [request.max_tokens for request in editor.requests] == [70, 30]
    assert len(refined.drafts) == 3


async def test_a_run_out_of_its_own_budget_returns_the_best_so_far():
    model = ScriptedModel(lambda messages: "a text of some words")

    async def asks(task, attempt):
        await ask(model, [])
        return Evaluation(0.1 * len(model.calls))

    session = Session(spend=Spend(Budget(max_tokens=12)))
    refined = await loop(asks, max_drafts=9).refine(TASK, session)
    assert refined.reason is REASON.TOKEN_BUDGET
    assert scores(refined) == [*map(pytest.approx, (0.1, 0.2, 0.3))], (
        "there is no revision that nobody can judge"
    )
    assert refined.best.number == 3


async def test_c04_threshold_is_met_by_equality():
    assert (await loop(Judge(0.8)).refine(TASK)).best.satisfactory
    assert not (await loop(Judge(0.79), max_drafts=1).refine(TASK)).best.satisfactory


@table(
    ("arguments", "said"),
    [
        ({"max_drafts": 0}, "max_drafts"),
        ({"max_drafts": True}, "max_drafts"),
        ({"threshold": 1.2}, "threshold"),
    ],
)
def test_bad_arguments_are_named(arguments, said):
    with pytest.raises(ConfigurationError, match=said):
        loop(Judge(0.5), **arguments)


@table(
    ("arguments", "said"),
    [
        ({"selection": "newest"}, "newest"),
        ({"base": "newest"}, "base must be one of best, latest, not 'newest'"),
        ({"max_revision_tokens": 0}, "max_revision_tokens"),
        ({"timeout": 0}, "timeout"),
    ],
)
def test_bad_options_are_named(arguments, said):
    with pytest.raises(ConfigurationError, match=said):
        RefinementOptions(**arguments)


async def test_h09_usage_is_summed_over_writer_judge_and_reviser():
    refined = await loop(Judge(0.1, 0.9, tokens=5), author=Author(tokens=10), editor=Editor(tokens=7)).refine(
        TASK
    )
    assert refined.usage.tokens == 10 + 5 + 7 + 5
    assert [draft.usage.tokens for draft in refined.drafts] == [15, 12]


async def test_f02_after_a_loss_the_better_draft_is_revised_in_another_way():
    editor = Editor()
    refined = await loop(Judge(0.6, 0.3, 0.9), editor=editor).refine(TASK)
    assert [request.draft.number for request in editor.requests] == [1, 1]
    assert [request.failed for request in editor.requests] == [None, "full_rewrite"]
    assert [draft.base for draft in refined.drafts] == [None, 1, 1]


async def test_f02_a_vetoed_draft_is_gone_back_from_whatever_its_score():
    editor = Editor()
    options = RefinementOptions(hooks=Watcher(Decision.CONTINUE))
    judge = Judge(Evaluation(0.85, passed=True), Evaluation(0.95, passed=False), 0.9)
    await loop(judge, editor=editor, max_drafts=3, options=options).refine(TASK)
    assert [request.draft.number for request in editor.requests] == [1, 1]


async def test_the_latest_draft_is_the_base_where_that_is_asked_for():
    events, editor, watcher = [], Editor(), Watcher()
    options = RefinementOptions(base="latest", convergence=None, hooks=watcher)
    judge = Judge(0.6, 0.3, None, 0.4, 0.9)
    refined = await loop(judge, editor=editor, max_drafts=5, options=options).refine(
        TASK, Session(listener=events.append)
    )
    assert [request.draft.number for request in editor.requests] == [1, 2, 3, 4]
    assert [request.failed for request in editor.requests] == [None] * 4, "nothing was gone back from"
    assert [draft.base for draft in refined.drafts] == [None, 1, 2, 3, 4]
    written = [event for event in events if event.kind == "refinement.draft_written"]
    assert [event.base for event in written] == [None, 1, 2, 3, 4]
    outputs = [draft.output for draft in refined.drafts]
    assert [told[1:3] for told in watcher.told if told[0] == "revised"] == list(pairwise(outputs))
    assert refined.best.number == 5


async def test_an_equal_score_goes_on_from_the_newer_draft():
    editor = Editor()
    await loop(Judge(0.6, 0.6, 0.9), editor=editor).refine(TASK)
    assert [request.draft.number for request in editor.requests] == [1, 2]


@table("fails", ["judge", "reviser"])
async def test_f05_an_outage_returns_the_best_so_far(fails):
    error = ModelConnectionError("gone")
    judge = Judge(0.5, error if fails == "judge" else 0.9)
    editor = Editor(error) if fails == "reviser" else Editor()
    refined = await loop(judge, editor=editor).refine(TASK)
    assert refined.reason is REASON.ERROR
    assert refined.error is error
    assert (refined.best.number, refined.best.evaluation.score) == (1, 0.5)
    assert "gone" in refined.problems[0]


class Paid:
    """A judge, a reviser or a critic of drafts whose model is paid for, and which fails in its n-th turn after it."""

    def __init__(self, fails: int, then: object, error: Exception | None = None) -> None:
        self.fails, self.then, self.turn = fails, then, 0
        self.error = error or ModelConnectionError("gone")

    async def __call__(self, *given):
        self.turn += 1
        await ask(ScriptedModel([Completion("a reply", usage=used(100))]), [])
        if self.turn == self.fails:
            raise self.error
        return await self.then(*given)


async def pass_over(*given):
    return Evaluation(None)


@table(
    ("judge", "reviser", "critic", "outputs", "calls"),
    [
        (1, 9, 9, ["first draft"], 2),
        (2, 9, 9, ["first draft", "second"], 4),
        (9, 1, 9, ["first draft"], 3),
        (3, 9, 9, ["first draft", "second", "third"], 7),
        (9, 2, 9, ["first draft", "second"], 6),
        (9, 9, 1, ["first draft", "second"], 5),
    ],
)
@table("error", [ModelConnectionError("gone"), ModelAuthError("no key"), ValueError("a typo")])
async def test_f05_an_outage_loses_neither_a_paid_draft_nor_what_was_paid(
    judge, reviser, critic, outputs, calls, error
):
    judging = Paid(judge, Judge(0.5, 0.3, 0.6), error)
    editing = Paid(reviser, Editor("second", "third"), error)
    looking = Paid(critic, pass_over, error)
    options = RefinementOptions(triggers=Triggers(quality_drop=0.1), drop_critic=looking)
    session = Session()
    inner = loop(judging, author=Author(tokens=100), editor=editing, options=options)
    refined = await inner.refine(TASK, session)
    assert refined.error is error
    assert [draft.output for draft in refined.drafts] == outputs
    assert refined.best.number == 1
    assert refined.usage == session.spend.total == Usage(calls=calls, input_tokens=100 * calls)


async def test_usage_is_that_of_the_run_alone_though_a_session_is_shared():
    session = Session()
    found = []

    async def one(tokens: int, times: int) -> None:
        judge = Paid(times, Judge(0.1, 0.2, 0.3))
        found.append((tokens, await loop(judge, author=Author(tokens=tokens)).refine(TASK, session)))

    async with anyio.create_task_group() as tasks:
        for tokens, times in ((1, 1), (2, 2), (3, 3)):
            tasks.start_soon(one, tokens, times)
    assert {tokens: refined.usage.tokens for tokens, refined in found} == {1: 101, 2: 202, 3: 303}
    assert session.spend.total.tokens == 606


async def test_within_a_run_of_something_else_it_counts_for_that_run():
    async def agent(task: Task) -> str:
        inner = loop(Paid(9, Judge(0.9)), author=Author("good", tokens=10))
        return (await inner.refine(task)).best.output

    async def judge(task, attempt):
        inner = await loop(Paid(9, Judge(0.9)), author=Author(tokens=1)).refine(TASK)
        return Evaluation(1.0, usage=inner.usage)

    async def reflect(task, trials):
        return "Never needed."

    result = await Reflexion(agent, evaluator=judge, reflector=reflect).run(TASK)
    assert {role: usage.tokens for role, usage in result.usage.items() if usage.tokens} == {
        "agent": 110,
        "evaluator": 101,
    }


async def test_the_limits_of_the_session_hold_within():
    author = Author(tokens=10)
    refined = await loop(Paid(9, Judge(0.1)), author=author).refine(
        TASK, Session(spend=Spend(Budget(max_tokens=10)))
    )
    assert refined.reason is REASON.TOKEN_BUDGET

    async def never(task: Task, session: Session) -> Attempt:
        await anyio.sleep_forever()
        return Attempt()

    with pytest.raises(BudgetExceededError, match=r"the 0\.01 s of the run are over"):
        await loop(Judge(0.1), author=never).refine(TASK, Session(spend=Spend(Budget(max_seconds=0.01))))


async def test_an_error_without_a_readable_text_ends_the_loop_as_any_other():
    class UnspeakableError(Exception):
        def __str__(self):
            raise ValueError("it can't be said")

    refined = await loop(Judge(0.1, UnspeakableError())).refine(TASK)
    assert (refined.reason, refined.best.number) == (REASON.ERROR, 1)
    assert "UnspeakableError" in refined.problems[0]


async def test_a_limit_holds_for_callables_that_ask_no_model_of_ours():
    author = Author(Attempt("a draft", usage=Usage(1, 10)))
    editor = Editor(tokens=10)
    session = Session(spend=Spend(Budget(max_tokens=15)))
    refined = await loop(Judge(0.1), editor=editor, author=author, max_drafts=9).refine(TASK, session)
    assert (refined.reason, len(refined.drafts)) == (REASON.TOKEN_BUDGET, 2)

    unknown = Author(Attempt("a draft", usage=UNKNOWN_USAGE))
    session = Session(spend=Spend(Budget(max_tokens=15)))
    refined = await loop(Judge(0.1), author=unknown, max_drafts=9).refine(TASK, session)
    assert (refined.reason, len(refined.drafts)) == (REASON.ERROR, 1)
    assert "a token budget needs reported usage" in refined.problems[0]


async def test_a_judge_that_fails_at_once_leaves_the_draft_unjudged():
    refined = await loop(Judge(ModelConnectionError("gone"))).refine(TASK)
    assert (refined.best.output, refined.best.evaluation.scored) == ("first draft", False)
    assert refined.reason is REASON.ERROR
    assert refined.drafts[0].at > 0


async def test_what_the_writer_raises_is_raised():
    with pytest.raises(ValueError, match="no ink"):
        await loop(Judge(0.5), author=Author(ValueError("no ink"))).refine(TASK)


async def test_as_an_agent_it_raises_what_no_retry_would_mend():
    with pytest.raises(ModelAuthError):
        await loop(Judge(ModelAuthError("no key")))(TASK, Session())
    attempt = await loop(Judge(0.5, ModelConnectionError("gone")))(TASK, Session())
    assert attempt.output == "first draft"
    assert attempt.metadata["refinement"]["reason"] == "error"


async def test_nothing_hangs():
    async def never(task, attempt):
        await anyio.sleep_forever()

    refined = await loop(never, options=RefinementOptions(timeout=0.05)).refine(TASK)
    assert refined.reason is REASON.ERROR
    assert "0.05 s" in refined.problems[0]


async def test_a_timeout_of_the_judges_own_is_told_as_its_own():
    refined = await loop(Judge(0.5, TimeoutError("the endpoint is asleep"))).refine(TASK)
    assert refined.problems == ("TimeoutError: the endpoint is asleep",)


async def test_two_unreadable_verdicts_running_end_the_run():
    editor = Editor()
    refined = await loop(Judge(0.2, None), editor=editor, max_drafts=9).refine(TASK)
    assert refined.reason is REASON.UNSCORABLE
    assert scores(refined) == [0.2, None, None]
    assert refined.best.number == 1
    # An unreadable verdict says nothing: the scored draft is gone on from.
    assert editor.requests[1].draft.number == 1


class Watcher:
    def __init__(self, *decisions):
        self.decisions = decisions
        self.told = []

    async def on_generation(self, draft, number):
        self.told.append(("draft", draft, number))

    async def on_judged(self, draft):
        self.told.append(("judged", draft.evaluation.score, draft.number))
        decision = (
            self.decisions[min(draft.number, len(self.decisions)) - 1] if self.decisions else Decision.AUTO
        )
        if isinstance(decision, Exception):
            raise decision
        return decision

    async def on_revision(self, old, new, number):
        self.told.append(("revised", old, new, number))


async def test_hooks_are_told_in_order():
    watcher = Watcher()
    await loop(Judge(0.3, 0.9), options=RefinementOptions(hooks=watcher)).refine(TASK)
    assert watcher.told == [
        ("draft", "first draft", 1),
        ("judged", 0.3, 1),
        ("draft", text(1), 2),
        ("revised", "first draft", text(1), 2),
        ("judged", 0.9, 2),
    ]


@table(
    ("decision", "reason", "drafts"),
    [
        (Decision.ACCEPT, REASON.USER_ACCEPTED, 1),
        (Decision.STOP, REASON.STOPPED, 1),
        (Decision.CONTINUE, REASON.MAX_ITERATIONS, 3),
        (Decision.AUTO, REASON.QUALITY_MET, 2),
    ],
)
async def test_k02_k03_a_decision_overrides_the_loop(decision, reason, drafts):
    options = RefinementOptions(hooks=Watcher(decision))
    refined = await loop(Judge(0.5, 0.9, 0.4), max_drafts=3, options=options).refine(TASK)
    assert (refined.reason, len(refined.drafts)) == (reason, drafts)


async def test_an_accepted_draft_is_the_one_returned():
    options = RefinementOptions(hooks=Watcher(Decision.AUTO, Decision.ACCEPT), convergence=None)
    refined = await loop(Judge(0.6, 0.4), options=options).refine(TASK)
    assert (refined.best.number, refined.reason) == (2, REASON.USER_ACCEPTED)


async def test_k05_a_hook_that_raises_is_reported_and_loses_nothing(caplog):
    events = []
    options = RefinementOptions(hooks=Watcher(RuntimeError("broken")))
    refined = await loop(Judge(0.3, 0.9), options=options).refine(TASK, Session(listener=events.append))
    assert refined.reason is REASON.QUALITY_MET
    assert refined.problems == ("a callback failed: RuntimeError: broken",) * 2
    assert [event.message for event in events if event.kind == "reflexion.warned"] == list(refined.problems)
    assert "broken" in caplog.text


async def test_events_tell_the_story():
    events = []
    await loop(Judge(0.3, 0.9)).refine(TASK, Session(listener=events.append))
    assert [event.kind.removeprefix("refinement.") for event in events] == [
        "draft_written",
        "draft_judged",
        "draft_written",
        "draft_judged",
        "finished",
    ]
    assert (events[2].base, events[2].strategy) == (1, "full_rewrite")
    assert (events[-1].reason, events[-1].best) == ("quality_met", 2)


async def test_gold_reaches_the_judge_alone():
    task = Task("What is the capital?", reference="Paris")
    author, editor = Author("Lyon"), Editor("Nice")
    seen = []

    async def judge(task, attempt):
        seen.append(task.reference)
        return Evaluation(0.2, issues=("it is Paris",), rationale="expected Paris")

    events = []
    await loop(judge, author=author, editor=editor, max_drafts=2).refine(
        task, Session(listener=events.append)
    )
    assert seen == ["Paris", "Paris"]
    assert author.tasks[0].reference is None
    request = editor.requests[0]
    assert "Paris" not in repr(request)
    assert "Paris" not in repr(events)


async def test_it_nests_in_the_outer_loop():
    inner = loop(Judge(0.3, 0.6), author=Author(tokens=10), editor=Editor("better", tokens=7), max_drafts=2)

    async def outer_judge(task, attempt):
        return Evaluation(1.0 if attempt.output == "better" else 0.0)

    async def reflect(task, trials):
        return "Write the better text."

    result = await Reflexion(inner, evaluator=outer_judge, reflector=reflect).run(TASK)
    assert result.passed
    assert result.trials[0].attempt.metadata["refinement"]["scores"] == [0.3, 0.6]
    assert result.trials[0].usage["agent"].tokens == 17
    assert result.usage["agent"].tokens == 17


async def test_f03_a_judge_that_is_never_content_is_flagged():
    judge = Judge(0.85, 0.9, 0.95)
    refined = await loop(judge, threshold=0.99).refine(TASK)
    assert refined.flags == ("overcritical",)
    assert refined.best.evaluation.score == 0.95
    assert (await loop(Judge(0.1, 0.15, 0.3), max_drafts=3).refine(TASK)).flags == ()


async def test_f01_the_same_issues_again_and_again_end_the_run():
    verdict = Evaluation(None, passed=False, issues=("the ending is weak",))
    refined = await loop(Judge(verdict), max_drafts=40).refine(TASK)
    assert refined.reason is REASON.REPEATED_ISSUES
    assert len(refined.drafts) == 4


@table("issue", ["the ending is weak", "{} of 20 tests fail"])
async def test_f01_a_run_that_improves_goes_on_whatever_the_issues(issue):
    judge = Judge(*(Evaluation(n / 10, issues=(issue.format(20 - n),)) for n in range(1, 9)))
    refined = await loop(judge, max_drafts=40).refine(TASK)
    assert (refined.reason, refined.best.evaluation.score) == (REASON.QUALITY_MET, 0.8)


async def test_a_judge_that_names_no_issue_ends_no_run_that_improves():
    def grade(output):
        return 0.1 * len(output)

    criterion = QualityCriterion("tests", evaluator="function", evaluator_config={"function": grade})
    evaluator = CriteriaEvaluator([criterion])
    refined = await loop(
        evaluator, author=Author("."), editor=Editor(*("." * n for n in range(2, 9))), max_drafts=40
    ).refine(TASK)
    assert (refined.reason, len(refined.drafts)) == (REASON.QUALITY_MET, 8)


async def test_convergence_off_runs_to_the_bound():
    options = RefinementOptions(convergence=None)
    refined = await loop(Judge(0.5), max_drafts=12, options=options).refine(TASK)
    assert (refined.reason, len(refined.drafts)) == (REASON.MAX_ITERATIONS, 12)


@table(
    ("script", "reason", "drafts"),
    [
        ((0.6, 0.6, 0.6), REASON.PLATEAU, 3),
        ((0.6, 0.55, 0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2, 0.1), REASON.PLATEAU, 3),
        ((0.4, 0.6, 0.4, 0.6, 0.4), REASON.OSCILLATION, 4),
        ((0.60, 0.61, 0.62, 0.63), REASON.DIMINISHING_RETURNS, 3),
    ],
)
async def test_v01_v02_v03_scores_that_go_nowhere_end_the_run(script, reason, drafts):
    refined = await loop(Judge(*script), max_drafts=20).refine(TASK)
    assert (refined.reason, len(refined.drafts)) == (reason, drafts)


async def test_c13_c15_the_limits_of_convergence_can_be_set():
    wider = RefinementOptions(convergence=Convergence(plateau_iterations=3))
    assert len((await loop(Judge(0.6), max_drafts=20, options=wider).refine(TASK)).drafts) == 4
    off = RefinementOptions(convergence=Convergence(detect_oscillation=False, plateau_iterations=5))
    script = [0.4, 0.6, 0.4, 0.6, 0.4, 0.6]
    refined = await loop(Judge(*script), max_drafts=6, options=off).refine(TASK)
    assert refined.reason is REASON.MAX_ITERATIONS


async def test_v04_drafts_that_stay_the_same_end_the_run_and_no_others():
    refused = Evaluation(None, passed=False)
    editor = Editor("first draft ", "first draft\n")
    refined = await loop(Judge(refused), editor=editor, max_drafts=20).refine(TASK)
    assert (refined.reason, len(refined.drafts)) == (REASON.SEMANTIC_STABILITY, 3)
    editor = Editor("First draft!", "first draft?", "  first draft")
    refined = await loop(Judge(refused), editor=editor, max_drafts=4).refine(TASK)
    assert refined.reason is REASON.MAX_ITERATIONS


async def test_v04_code_that_gains_with_every_revision_is_revised_on():
    first = "if x < 3:\n    n += 1\nreturn n"
    editor = Editor("if x <= 3:\n    n += 1\nreturn n", "if x <= 3:\n    n += 1\n    return n")
    refined = await loop(Judge(0.2, 0.4, 0.6), author=Author(first), editor=editor, max_drafts=3).refine(TASK)
    assert refined.reason is REASON.MAX_ITERATIONS


def test_used_counts_what_it_is_told():
    assert used(3).tokens == 3
