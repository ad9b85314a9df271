"""The loop, the evaluation and the correction as functions."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion import (
    BudgetExceededError,
    ConfigurationError,
    ModelAuthError,
    ReflexionError,
    ScriptedModel,
    Session,
    errors,
)
from jeeves_reflexion.workflows import (
    ReflectionFailedError,
    Toolbox,
    Tools,
    reflection_correct,
    reflection_evaluate,
    reflection_loop,
    schemas,
)
from jeeves_reflexion.workflows.plan import CONTROL_KEYS

pytestmark = pytest.mark.anyio

NAMED = {"type": "schema", "schema": {"type": "object", "required": ["name"]}}


def by_model(prompt, **more):
    return {"type": "llm", "prompt": prompt, **more}


def script(*outputs):
    """A step that gives its outputs in turn, or raises them, and keeps the states it saw."""
    left = list(outputs)

    async def step(state):
        step.seen.append(state)
        output = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(output, BaseException):
            raise output
        return output

    step.seen = []
    return step


async def test_a_corrected_output_is_what_is_judged_next():
    generator, corrector = script({"a": 1}), script({"a": 2}, {"name": "Ada"})
    result = await reflection_loop(
        {"k": 1}, generator=generator, evaluator=NAMED, corrector=corrector, max_iterations=5
    )
    assert result["success"] is True
    assert [entry["output"] for entry in result["reflection_history"]] == [
        {"a": 1},
        {"a": 2},
        {"name": "Ada"},
    ]
    assert [(s["reflection_iteration"], s["reflection_output"], s["k"]) for s in corrector.seen] == [
        (1, {"a": 1}, 1),
        (2, {"a": 2}, 1),
    ]
    assert corrector.seen[0]["reflection_errors"][0]["message"] == "'name' is a required property"
    assert len(generator.seen) == 1
    assert generator.seen[0]["reflection_iteration"] == 1


async def test_the_corrector_gets_the_latest_output_though_an_earlier_one_scored_better():
    scores = iter([0.8, 0.2, 0.5])
    corrector = script("second", "third")
    result = await reflection_loop(
        {},
        generator=script("first"),
        evaluator=lambda output, state: {"valid": False, "score": next(scores)},
        corrector=corrector,
    )
    assert [state["reflection_output"] for state in corrector.seen] == ["first", "second"]
    assert [state["reflection_best"] for state in corrector.seen] == ["first", "first"]
    assert (result["reflection_output"], result["reflection_best_score"]) == ("first", 0.8)


async def test_events_name_the_draft_that_was_corrected_as_the_base():
    scores, heard = iter([0.8, 0.2, 0.5, 0.1]), []
    async with Toolbox(session=Session(listener=heard.append)) as toolbox:
        await reflection_loop(
            {},
            generator=script("first", "anew"),
            evaluator=lambda output, state: {"valid": False, "score": next(scores)},
            corrector=script("second", "third", RuntimeError("no")),
            max_iterations=4,
            tools=toolbox,
        )
    written = [event for event in heard if event.kind == "refinement.draft_written"]
    assert [(event.output, event.base) for event in written] == [
        ("first", None),
        ("second", 1),
        ("third", 2),
        ("anew", 3),
    ]


async def test_a_crash_uses_up_an_attempt_and_leads_to_a_new_generation():
    generator = script(RuntimeError("boom"), {"a": 1}, {"name": "x"})
    corrector = script(ValueError("no"))
    result = await reflection_loop({}, generator=generator, evaluator=NAMED, corrector=corrector)
    first, second, third = result["reflection_history"]
    assert (first["output"], first["score"], first["valid"]) == (None, 0.0, False)
    assert "RuntimeError: boom" in first["errors"][0]["message"]
    assert (second["output"], third["output"]) == ({"a": 1}, {"name": "x"})
    assert len(corrector.seen) == 1


async def test_when_nothing_was_produced_the_best_is_none():
    result = await reflection_loop({}, generator=script(RuntimeError("x")), evaluator=NAMED)
    assert (result["reflection_best"], result["reflection_best_score"], result["exhausted"]) == (
        None,
        0.0,
        True,
    )


async def test_an_output_of_zero_points_is_better_than_none():
    result = await reflection_loop(
        {}, generator=script(RuntimeError("x"), "text"), evaluator=NAMED, max_iterations=2
    )
    assert result["reflection_best"] == "text"


THREE = {"type": "schema", "schema": {"type": "object", "required": ["a", "b", "c"]}}


@table(
    ("outputs", "best"),
    [
        ([{}, {"a": 1, "b": 1}, {"a": 1}], {"a": 1, "b": 1}),
        ([{"a": 1}, {}, {"b": 1}], {"b": 1}),
        ([{"a": 1, "b": 1}, {"a": 1}, {}], {"a": 1, "b": 1}),
    ],
)
async def test_by_a_schema_the_best_has_the_fewest_errors_and_of_equals_it_is_the_later(outputs, best):
    result = await reflection_loop({}, generator=script(*outputs), evaluator=THREE)
    assert (result["success"], result["reflection_output"], result["reflection_best"]) == (False, best, best)


async def test_an_output_that_was_judged_is_better_than_one_whose_evaluator_failed():
    verdicts = iter([{"valid": False, "score": 0, "errors": ["a", "b"]}, RuntimeError("gone")])

    def evaluate(output, state):
        verdict = next(verdicts)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    result = await reflection_loop(
        {}, generator=script("judged", "unknown"), evaluator=evaluate, max_iterations=2
    )
    assert result["reflection_best"] == "judged"


async def test_null_is_an_output_as_any_other():
    result = await reflection_loop(
        {"reflection_output": "old"},
        generator=script(None),
        evaluator=lambda output, state: output is None and state["reflection_output"] is None,
    )
    assert (result["success"], result["reflection_output"]) == (True, None)


async def test_raise_carries_the_history():
    with pytest.raises(ReflectionFailedError) as error:
        await reflection_loop({}, generator=script({}), evaluator=NAMED, max_iterations=2, on_failure="raise")
    assert isinstance(error.value, ReflexionError)
    assert "2 attempts" in str(error.value)
    assert [set(entry) for entry in error.value.history] == [
        {"iteration", "output", "score", "valid", "errors"}
    ] * 2


@table("where", ["generator", "evaluator", "corrector"])
async def test_what_no_attempt_would_mend_is_raised(where):
    for fatal in (
        ModelAuthError("no key"),
        ConfigurationError("bad"),
        BudgetExceededError("tokens", "spent"),
        errors.SandboxUnavailableError("no isolation"),
    ):

        def judge(output, state, fatal=fatal):
            if where == "evaluator":
                raise fatal
            return False

        with pytest.raises(type(fatal)):
            await reflection_loop(
                {},
                generator=script(fatal if where == "generator" else 1),
                evaluator=judge,
                corrector=script(fatal) if where == "corrector" else None,
            )


async def test_a_hanging_step_has_failed_and_the_loop_goes_on():
    async def hang(state):
        await anyio.sleep_forever()

    result = await reflection_loop(
        {}, generator=hang, evaluator=NAMED, max_iterations=2, tools=Tools(step_seconds=0.05)
    )
    assert "took longer than 0.05 s" in result["reflection_history"][1]["errors"][0]["message"]


@table(
    ("options", "said"),
    [
        ({"max_iterations": 0}, "max_iterations"),
        ({"max_iterations": True}, "max_iterations"),
        ({"max_iterations": 5000}, "max_iterations must be at most 1000, not 5000"),
        ({"on_failure": "shrug"}, "on_failure: must be one of return_best, return_last, raise"),
        ({"evaluator": {"type": "shema", "schema": {}}}, "did you mean 'schema'"),
        ({"evaluator": {"schema": {}}}, "type is missing"),
        ({"evaluator": {"type": "schema", "schema": {"type": 3}}}, "not a valid JSON Schema"),
        ({"evaluator": {"type": "custom", "run": "x", "langage": "lua"}}, "did you mean 'language'"),
        ({"evaluator": {"type": "llm", "prompt": "p", "schema": {}}}, "unknown key 'schema'"),
        ({"generator": {}}, "either action"),
        ({"generator": 5}, "generator must be a function"),
        ({"corrector": "x"}, "corrector must be a function"),
        ({"evaluator": 5}, "evaluator must be a function"),
        ({"generator": {"action": "llm.cal"}}, "did you mean 'llm.call'"),
        ({"generator": {"action": "llm.call"}}, "either prompt or messages"),
        ({"corrector": {"action": "llm.call", "prompt": "x", "temprature": 1}}, "did you mean 'temperature'"),
    ],
)
async def test_bad_parameters_are_configuration_errors(options, said):
    given = {"generator": script(1), "evaluator": NAMED, **options}
    with pytest.raises(ConfigurationError) as error:
        await reflection_loop({}, **given)
    assert said in str(error.value)


async def test_a_state_that_is_no_json_is_refused():
    with pytest.raises(ConfigurationError, match="plain JSON"):
        await reflection_loop({"x": {1, 2}}, generator=script(1), evaluator=NAMED)


@given(
    st.dictionaries(
        st.sampled_from(sorted(CONTROL_KEYS)) | st.text(max_size=4), st.none() | st.booleans() | st.integers()
    )
)
def test_a_generated_key_never_overwrites_a_control_key(output):
    async def main():
        return await reflection_loop(
            {}, generator=lambda state: output, evaluator=lambda o, s: False, max_iterations=1
        )

    result = anyio.run(main)
    assert (result["success"], result["valid"], result["exhausted"]) == (False, False, True)
    assert result["reflection_output"] == output
    for key, value in output.items():
        if key not in CONTROL_KEYS:
            assert result[key] == value
    assert not {"llm_model", "llm_provider"} & set(result)


# -- evaluators


async def test_a_judge_that_can_not_be_read_is_asked_once_more_and_then_approves_nothing():
    model = ScriptedModel(["I think it is fine", "really fine"])
    result = await reflection_evaluate({}, evaluator=by_model("ok?"), data=1, tools=Tools(model=model))
    assert (result["valid"], result["score"], result["success"]) == (False, 0.0, False)
    assert len(model.calls) == 2
    model = ScriptedModel(["hm", '{"valid": true}'])
    assert (await reflection_evaluate({}, evaluator=by_model("ok?"), data=1, tools=Tools(model=model)))[
        "valid"
    ]


async def test_a_judge_sees_its_prompt_filled_in_and_the_examples_before_it():
    model = ScriptedModel(['{"valid": true}'])
    evaluation = by_model(
        "Judge {{ state.reflection_output | tojson }}",
        examples=[{"input": {"a": 1}, "output": '{"valid": true}'}],
    )
    await reflection_evaluate({}, evaluator=evaluation, data={"x": "{{ 1 }}"}, tools=Tools(model=model))
    (call,) = model.calls
    assert [(m.role, m.content) for m in call.messages[1:]] == [
        ("user", '{"a": 1}'),
        ("assistant", '{"valid": true}'),
        ("user", 'Judge {"x": "{{ 1 }}"}'),
    ]


async def test_evaluation_then_correction_from_the_state_alone():
    state = {"reflection_output": '{"n": "5"}'}
    evaluator = {
        "type": "schema",
        "schema": {"type": "object", "required": ["m"], "properties": {"n": {"type": "integer"}}},
    }
    judged = await reflection_evaluate(state, evaluator=evaluator)
    assert (judged["valid"], judged["reflection_output"]) == (False, {"n": 5})
    corrected = await reflection_correct(
        {**state, **judged},
        corrector=lambda seen: {**seen["reflection_output"], "m": len(seen["reflection_errors"])},
    )
    assert corrected == {"success": True, "corrected_output": {"n": 5, "m": 1}}


async def test_a_correction_that_fails_gives_the_data_back():
    result = await reflection_correct({}, corrector=script(RuntimeError("x")), data=7, errors=["e"])
    assert (result["success"], result["corrected_output"]) == (False, 7)
    assert "RuntimeError: x" in result["error"]
    with pytest.raises(ConfigurationError, match="there is no data"):
        await reflection_correct({}, corrector=script(1))


async def test_a_correction_by_prompt_sees_data_and_errors():
    model = ScriptedModel(["fixed"])
    step = {
        "action": "llm.call",
        "prompt": "{{ state.reflection_output }}: {{ state.reflection_errors[0].message }}",
    }
    result = await reflection_correct(
        {}, corrector=step, data="out", errors=["bad"], tools=Tools(model=model)
    )
    assert result["corrected_output"] == "fixed"
    assert model.calls[0].messages[-1].content == "out: bad"


async def test_the_models_by_name_come_before_the_one_for_all(here):
    one, other = (
        ScriptedModel(['{"valid": true}'] * 9, name="one"),
        ScriptedModel(['{"valid": true}'] * 9, name="other"),
    )
    tools = Tools(model=other, models={"gpt-4": one})
    for model, state in (("gpt-4", {}), (None, {"llm_model": "gpt-4"}), ("gpt-5", {}), (None, {})):
        await reflection_evaluate(state, evaluator=by_model("x", model=model), data=1, tools=tools)
    assert (len(one.calls), len(other.calls)) == (2, 2)
    with pytest.raises(ConfigurationError, match="no model is named"):
        await reflection_evaluate({}, evaluator=by_model("x"), data=1)


async def test_custom_code_sees_output_and_state(here):
    code = "result = {'valid': output['n'] < state['most'], 'score': 0.5, 'errors': ['too much']}"
    result = await reflection_evaluate(
        {"most": 3}, evaluator={"type": "custom", "run": code}, data={"n": 5}, tools=Tools(sandbox=here)
    )
    assert (result["valid"], result["score"], result["errors"][0]["message"]) == (False, 0.5, "too much")
    assert here.ran == [code]


async def test_an_output_that_is_too_deep_to_keep_is_a_failure_and_no_crash():
    deep = "[" * 90 + "]" * 90
    result = await reflection_loop(
        {}, generator=script(deep), evaluator={"type": "schema", "schema": {"type": "array"}}
    )
    assert (result["success"], result["reflection_output"]) == (False, deep)
    nested = []
    for _ in range(90):
        nested = [nested]
    result = await reflection_loop({}, generator=script(nested), evaluator={"type": "schema", "schema": True})
    assert "nested deeper" in result["reflection_history"][0]["errors"][0]["message"]


async def test_half_a_surrogate_pair_from_a_model_does_no_harm_later():
    model = ScriptedModel(['{"name": "\\ud800"}', "\ud800 x", '{"name": "\U0001f600"}'])
    result = await reflection_loop(
        {}, generator={"action": "llm.call", "prompt": "x"}, evaluator=NAMED, tools=Tools(model=model)
    )
    outputs = [entry["output"] for entry in result["reflection_history"]]
    assert outputs == ['{"name": "\\ud800"}', "? x", {"name": "\U0001f600"}]


async def test_others_run_while_mappings_are_read(monkeypatch):
    monkeypatch.setattr(schemas, "MAX_SECONDS", 0.5)
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await anyio.sleep(0.01)

    old = "http://json-schema.org/draft-04/schema#"  # where the values of an enum must differ: a long check
    schema = {"$schema": old, "enum": [{"n": n} for n in range(8_000)]}
    async with anyio.create_task_group() as group:
        group.start_soon(count)
        with pytest.raises(ConfigurationError, match="took longer than"):
            await reflection_loop({}, generator=script(1), evaluator={"type": "schema", "schema": schema})
        group.cancel_scope.cancel()
    assert turns > 1
