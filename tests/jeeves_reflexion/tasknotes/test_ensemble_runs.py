"""Whole runs of an ensemble: who is asked when, what is learned of it, and what may not be."""

import logging

import pytest
from noting import REPLY, Broken, Counting, Heard, noted
from tables import table

from jeeves_reflexion import (
    Attempt,
    ConfigurationError,
    Evaluation,
    ModelAuthError,
    ModelConnectionError,
    Reflexion,
    ScriptedModel,
    Session,
)
from jeeves_reflexion import Task as CoreTask
from jeeves_reflexion.tasknotes import (
    Ensemble,
    InMemoryReflectionStore,
    Phase,
    ReflectionConfig,
    ReviewDecision,
    Task,
    task_identity,
)

pytestmark = pytest.mark.anyio


def agent(prompt: str) -> str:
    return f"done: {prompt[-20:]}"


def reflective(description="Write a report.", **fields):
    strategy = Counting()
    return Task(description, reflect=ReflectionConfig(strategy=strategy), **fields), strategy


async def test_the_order_is_that_of_the_seed():
    order = []

    def step(name, answer=None):
        def call(output, *_):
            order.append(name)
            return answer

        return call

    class Strategy(Counting):
        async def reflect(self, given):
            order.append("reflect")
            return await super().reflect(given)

    class Store(InMemoryReflectionStore):
        async def history(self, task_identity):
            order.append("read")
            return await super().history(task_identity)

        async def commit(self, *arguments, **more):
            order.append("write")
            return await super().commit(*arguments, **more)

    task = Task(
        "Write.",
        reflect=ReflectionConfig(strategy=Strategy()),
        agent=step("agent", "out"),
        evaluator=step("evaluator", 1.0),
        input_guards=[step("input guard")],
        output_guards=[step("output guard")],
        review=step("review", ReviewDecision.accept()),
    )
    heard = Heard()
    result = await Ensemble(reflection_store=Store(), listeners=[heard]).run(task)
    assert result.accepted
    assert order == [
        "input guard",
        "read",
        "agent",
        "output guard",
        "evaluator",
        "review",
        "read",
        "reflect",
        "write",
    ]
    assert [event.kind for event in heard][-1] == "tasknotes.reflected"


REFUSALS = {
    "input guard": {"input_guards": [lambda task: "no"]},
    "output guard": {"output_guards": [lambda output: False]},
    "evaluator": {"evaluator": lambda output: 0.2},
    "unscorable": {"evaluator": lambda output: None},
    "review": {"review": lambda task, attempt, verdict: ReviewDecision.reject("no")},
}


@table("refusal", REFUSALS)
async def test_a_rejected_run_leaves_no_reflection(refusal):
    task, strategy = reflective(**REFUSALS[refusal])
    heard = Heard()
    store = InMemoryReflectionStore()
    (outcome,) = (await Ensemble(agent=agent, reflection_store=store, listeners=[heard]).run(task)).outcomes
    assert outcome.status == "rejected"
    assert outcome.reason
    assert (strategy.given, heard.reflected) == ([], [])
    assert await store.retrieve(task.identity) is None


def broken(output, *_):
    raise RuntimeError("broken")


FAILURES = {
    "agent": {"agent": broken},
    "model": {"agent": ScriptedModel([ModelConnectionError("nobody there")] * 2)},
    "guard": {"output_guards": [broken]},
    "evaluator": {"evaluator": broken},
    "review": {"review": broken},
    "attempt": {"agent": lambda prompt: Attempt("half", error="it broke")},
}


@table("failure", FAILURES)
async def test_a_failed_run_leaves_no_reflection_and_no_score(failure):
    task, strategy = reflective(**FAILURES[failure])
    store = InMemoryReflectionStore()
    (outcome,) = (await Ensemble(agent=agent, reflection_store=store).run(task)).outcomes
    assert (outcome.status, strategy.given, store.size) == ("failed", [], 0)


@table(
    "call",
    [
        lambda: Ensemble(agent=agent, reflection_store=InMemoryReflectionStore),
        lambda: ReflectionConfig(strategy=Counting),
        lambda: ReflectionConfig(model=ScriptedModel),
    ],
)
def test_a_class_in_place_of_its_object_is_refused_at_once(call):
    with pytest.raises(ConfigurationError, match="must be a"):
        call()


def typo(prompt: str) -> str:
    return undefined  # noqa: F821


async def test_a_result_is_printed_in_a_line_for_each_task():
    refused = Task("Write two.", output_guards=[lambda output: "too long"])
    result = await Ensemble(agent=lambda prompt: f"done\n{'x' * 1000}").run("Write one.", refused)
    head, first, second = str(result).splitlines()
    assert head.startswith("1 of 2 tasks accepted (")
    assert first.startswith("accepted: Write one.: done xxx")
    assert len(first) < 300
    assert second == "rejected: Write two.: output guard: too long"


async def test_a_bug_in_one_task_is_shown_and_costs_no_others_result(caplog):
    first = Task("Write one.", agent=typo)
    result = await Ensemble(agent=agent).run(first, Task("Write two.", context=[first]), "Write three.")
    assert [outcome.status for outcome in result.outcomes] == ["failed", "skipped", "accepted"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "NameError: name 'undefined' is not defined" in caplog.text


async def test_what_a_reviewer_edits_is_what_is_reflected_on():
    task, strategy = reflective(review=lambda task, attempt, verdict: ReviewDecision.edit("edited"))
    result = await Ensemble(agent=agent, reflection_store=InMemoryReflectionStore()).run(task)
    assert result.output == "edited"
    assert strategy.given[0].task_output == "edited"


async def test_a_store_that_fails_fails_no_task(caplog):
    store = Broken(reads=True)
    task, _ = reflective()
    heard = Heard()
    (outcome,) = (await Ensemble(agent=agent, reflection_store=store, listeners=[heard]).run(task)).outcomes
    assert outcome.accepted
    assert outcome.problems
    assert heard.reflected == []
    assert "hunter2secret" not in caplog.text + repr(heard) + repr(outcome.problems)


async def test_a_reflection_that_fails_fails_no_task():
    task = Task("Write.", reflect=ReflectionConfig(model=ScriptedModel([ModelConnectionError("gone")])))
    result = await Ensemble(agent=agent, reflection_store=InMemoryReflectionStore()).run(task)
    assert result.accepted
    assert "no new reflection" in result.outcomes[0].problems[0]


async def test_the_default_store_lives_as_long_as_the_ensemble_and_warns_once(caplog):
    task, _ = reflective()
    heard = Heard()
    ensemble = Ensemble(agent=agent, listeners=[heard])
    assert isinstance(ensemble.reflection_store, InMemoryReflectionStore)
    with caplog.at_level(logging.WARNING, "jeeves_reflexion"):
        for _ in range(3):
            await ensemble.run(task)
    assert [message for message in heard.warnings if "kept in memory" in message] == heard.warnings
    assert len(heard.warnings) == 1
    assert sum("kept in memory" in record.getMessage() for record in caplog.records) == 1
    assert (await ensemble.reflection_store.retrieve(task.identity)).run_count == 3


async def test_nothing_warns_where_nothing_reflects():
    heard = Heard()
    await Ensemble(agent=agent, listeners=[heard]).run("Write.")
    assert heard.warnings == []


async def test_a_configured_model_reflects_in_place_of_the_tasks():
    cheap, own = ScriptedModel([REPLY]), ScriptedModel(["The answer."])
    task = Task("Write.", reflect=ReflectionConfig(model=cheap), agent=own)
    await Ensemble(ScriptedModel([]), reflection_store=InMemoryReflectionStore()).run(task)
    assert (len(cheap.calls), len(own.calls)) == (1, 1)


async def test_a_configured_prompt_takes_the_place_of_ours():
    model = ScriptedModel(["The answer.", REPLY])
    task = Task("Write.", reflect=ReflectionConfig(prompt="Reflect in German."))
    result = await Ensemble(model, reflection_store=InMemoryReflectionStore()).run(task)
    assert result.outcomes[0].reflection.suggestions == ("Ask for sources.", "Bound the length.")
    system, user = model.calls[1].messages
    assert system.content == "Reflect in German."
    assert "<task_description>\nWrite.\n</task_description>" in user.content


async def test_the_tasks_own_model_reflects_before_the_ensembles():
    own = ScriptedModel(["The answer.", REPLY])
    await Ensemble(ScriptedModel([]), reflection_store=InMemoryReflectionStore()).run(
        Task("Write.", reflect=True, agent=own)
    )
    assert len(own.calls) == 2


async def test_what_depends_on_a_rejected_task_is_skipped_and_the_rest_is_not():
    first = Task("One.", output_guards=[lambda output: "bad"])
    second, third = Task("Two.", context=[first]), Task("Three.")
    result = await Ensemble(agent=agent).run(first, second, third)
    assert [outcome.status for outcome in result.outcomes] == ["rejected", "skipped", "accepted"]


async def test_a_phase_learns_once_it_is_accepted_whole():
    order = []
    task, strategy = reflective()

    def review(outcomes):
        order.append(len(strategy.given))
        return ReviewDecision.accept()

    store = InMemoryReflectionStore()
    result = await Ensemble(agent=agent, reflection_store=store).run(Phase("draft", [task], review))
    assert (order, len(strategy.given)) == ([0], 1)
    assert result.outcomes[0].reflection is not None
    assert (await store.history(task.identity)).baseline == (1.0,)


@pytest.mark.parametrize("review", [None, lambda outcomes: ReviewDecision.accept()])
async def test_a_phase_says_how_its_tasks_are_reflected_on(review):
    own, strategy = reflective("Has its own.")
    whole = Counting()
    plain, outside = Task("Has none."), Task("Outside.")
    phase = Phase("draft", [plain, own, "A text."], review, reflect=ReflectionConfig(strategy=whole))
    heard = Heard()
    ensemble = Ensemble(agent=agent, listeners=[heard])
    for _ in range(2):
        result = await ensemble.run(outside, phase)
    assert [given.description for given in whole.given] == ["Has none.", "A text."] * 2
    assert [given.description for given in strategy.given] == ["Has its own."] * 2
    assert [outcome.version for outcome in result.outcomes] == [None, 1, 1, 1]
    assert [event.is_first_reflection for event in heard.reflected] == [True] * 3 + [False] * 3
    assert sum("kept in memory" in message for message in heard.warnings) == 1
    assert (plain.reflect, plain.reflection) == (False, None)


async def test_a_phase_reflects_with_the_model_of_each_task():
    model = ScriptedModel(["The answer.", REPLY])
    await Ensemble(ScriptedModel([])).run(Phase("draft", [Task("Write.", agent=model)], reflect=True))
    assert len(model.calls) == 2


async def test_a_rejected_phase_leaves_no_reflection_and_scores_zero():
    task, strategy = reflective()
    store = InMemoryReflectionStore()
    phase = Phase("draft", [task], lambda outcomes: ReviewDecision.reject("not good"))
    (outcome,) = (await Ensemble(agent=agent, reflection_store=store).run(phase)).outcomes
    assert (outcome.status, outcome.reason, strategy.given) == ("rejected", "phase 'draft': not good", [])
    assert (await store.history(task.identity)).baseline == (0.0,)


async def test_a_review_that_breaks_says_nothing_of_the_notes(caplog):
    store = InMemoryReflectionStore()
    task, strategy = reflective()
    ensemble = Ensemble(agent=agent, reflection_store=store)
    (outcome,) = (await ensemble.run(Phase("draft", [task], lambda outcomes: 1 / 0))).outcomes
    assert (outcome.status, outcome.decision, strategy.given) == ("failed", None, [])
    assert "phase 'draft': the review failed: ZeroDivisionError" in outcome.reason
    assert outcome.reason in caplog.text
    assert await store.history(task.identity) is None


@table(
    "wrong",
    [{"tasks": "abc"}, {"review": "me"}, {"reflect": 3}],
)
def test_a_phase_that_can_not_be_is_refused(wrong):
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        Phase(**{"name": "draft", "tasks": ["Write."], **wrong})


async def test_runs_are_scored_under_the_version_that_they_saw():
    scores = iter([0.9, 0.8, 0.3])
    task, _ = reflective(evaluator=lambda output: next(scores))
    store = InMemoryReflectionStore()
    ensemble = Ensemble(agent=agent, reflection_store=store)
    for _ in range(3):
        await ensemble.run(task)
    history = await store.history(task.identity)
    assert (history.baseline, [version.scores for version in history.versions]) == ((0.9,), [(0.8,), (0.3,)])
    assert history.run_count == 2


async def test_notes_stand_beside_the_lessons_of_an_outer_loop():
    store, prompts = InMemoryReflectionStore(), []
    await store.store(task_identity("Write."), noted("Better."))

    def tell(prompt: str) -> str:
        prompts.append(prompt)
        return "out" if len(prompts) > 1 else "nothing"

    loop = Reflexion(
        tell, evaluator=lambda output: output == "out", reflector=lambda task, trials: "Say it in one word."
    )
    task = Task("Write.", reflect=ReflectionConfig(strategy=Counting()))
    assert (await Ensemble(agent=loop, reflection_store=store).run(task)).output == "out"
    assert all("Better." in prompt for prompt in prompts)
    assert "Say it in one word." in prompts[1]


async def test_a_task_keeps_its_id_and_its_gold_from_the_agent():
    seen = []

    class Agent:
        async def __call__(self, task: CoreTask, session: Session) -> Attempt:
            seen.append(task)
            return Attempt("out")

    store = InMemoryReflectionStore()
    config = ReflectionConfig(strategy=Counting())
    task = Task("Name a moon of {planet}.", reference="Titan", id="my-id", reflect=config)
    assert (
        await Ensemble(agent=Agent(), reflection_store=store).run(task, inputs={"planet": "Saturn"})
    ).accepted
    assert (seen[0].id, seen[0].prompt, seen[0].reference) == ("my-id", "Name a moon of Saturn.", None)
    assert await store.retrieve(task_identity("Name a moon of {planet}.")) is not None


async def test_notes_of_a_template_are_filled_for_each_run():
    strategy = Counting()
    task = Task("Write about {topic}.", "On {topic}.", reflect=ReflectionConfig(strategy=strategy))
    prompts = []

    def tell(prompt: str) -> str:
        prompts.append(prompt)
        return "out"

    ensemble = Ensemble(agent=tell, reflection_store=InMemoryReflectionStore())
    await ensemble.run(task, inputs={"topic": "cars"})
    await ensemble.run(task, inputs={"topic": "food"})
    assert "Write about food. (better, 1)" in prompts[1]
    assert "cars" not in prompts[1]
    assert strategy.given[0].expected_output == "On {topic}."


@table(
    ("make", "said"),
    [
        (lambda: (Ensemble(), ["Write."]), "no agent"),
        (lambda: (Ensemble(agent=agent), [Task("Write.", context=[Task("Another.")])]), "context"),
        (lambda: (Ensemble(agent=agent), [Task("Write {a}.", inputs={"b": "1"})]), "no input for a"),
        (lambda: (Ensemble(agent=agent), [3]), "a task must be"),
        (lambda: (Ensemble(agent=agent), [CoreTask("Write.")]), "or a text, not jeeves_reflexion.types.Task"),
        (lambda: (Ensemble(agent=agent, reflection_store=3), []), "reflection_store"),
        (lambda: (Ensemble("gpt"), []), "ChatModel"),
        (lambda: (Ensemble(agent=agent), [Task(" ")]), "empty"),
    ],
)
async def test_what_cannot_work_is_said_before_anything_runs(make, said):
    async def go():
        ensemble, tasks = make()
        await ensemble.run(*tasks)

    with pytest.raises(ConfigurationError, match=said):
        await go()


async def test_an_evaluator_sees_the_original_task():
    seen = []

    def judge(task, attempt):
        seen.append(task)
        return Evaluation(1.0)

    store = InMemoryReflectionStore()
    task, _ = reflective(evaluator=judge, reference="gold", expected_output="A report")
    await store.store(task.identity, noted())
    await Ensemble(agent=agent, reflection_store=store).run(task)
    assert (seen[0].prompt, seen[0].expected_output, seen[0].reference) == (
        "Write a report.",
        "A report",
        "gold",
    )


async def test_what_ends_a_run_keeps_its_cause_however_many_work():
    def keyless(prompt: str) -> str:
        raise ModelAuthError("no key") from KeyError("OPENAI_API_KEY")

    for workers in (1, 2):
        with pytest.raises(ModelAuthError) as caught:
            await Ensemble(agent=keyless).run("one", "two", workers=workers)
        assert isinstance(caught.value.__cause__, KeyError)
