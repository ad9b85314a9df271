"""Whole workflows: the contract's example, the state, routes, and what a file can get wrong."""

from __future__ import annotations

import copy
import logging
import time

import anyio
import pytest
from tables import table

from jeeves_reflexion import ConfigurationError, OpenAIModel, ScriptedModel, SessionError, errors
from jeeves_reflexion.sandbox import Sandbox, SandboxLimits
from jeeves_reflexion.workflows import ReflectionFailedError, Workflow, WorkflowError, WorkflowFileError
from jeeves_reflexion.workflows.plan import CONTROL_KEYS

pytestmark = pytest.mark.anyio
both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])

GOOD = '{"name": "Ada", "email": "ada@example.org", "age": "36", "success": false, "request": "mine"}'


def nodes(text: str) -> Workflow:
    return Workflow.from_text("nodes:\n" + text)


# -- the complete example


@both_loops
async def test_the_complete_example_runs_as_printed(example, here):
    model = ScriptedModel(['{"name": "Ada"}', f"```json\n{GOOD}\n```"])
    given_state = {"request": "Ada Lovelace"}
    before = copy.deepcopy(given_state)
    state = await Workflow.from_text(example).run(given_state, model=model, sandbox=here)
    assert given_state == before
    assert state["message"] == "Created profile for Ada"
    assert (state["success"], state["name"], state["age"]) == (True, "Ada", 36)
    assert state["profile"]["email"] == "ada@example.org"
    # The generated `success` is where all of the output is; the loop's own says how the loop went.
    assert state["reflection_output"]["success"] is False
    assert state["profile"]["success"] is True
    assert model.calls[0].messages[0].content.splitlines()[1] == "User request: Ada Lovelace"
    assert "- Path: , Message: 'email' is a required property\n- Path: " in model.calls[1].messages[0].content
    assert 'Original: {"name": "Ada"}' in model.calls[1].messages[0].content


async def test_the_complete_example_fails_gracefully(example, here):
    model = ScriptedModel(["sorry", '{"name": "Ada"}', '{"name": "Bo"}'])
    state = await Workflow.from_text(example).run({"request": "x"}, model=model, sandbox=here)
    assert state["message"] == "Failed to generate valid profile"
    assert state["best_attempt"] == "sorry"
    assert (state["success"], state["exhausted"], state["profile"]["reflection_iteration"]) == (
        False,
        True,
        3,
    )


async def test_the_complete_example_over_http_with_the_real_sandbox(example, endpoint):
    endpoint.replies = ['{"name": "Ada"}', GOOD]
    # The code is that of the example; a machine without isolation may run it too.
    async with OpenAIModel("local", base_url=endpoint.url) as local, Sandbox(allow_weaker=True) as sandbox:
        state = await Workflow.from_text(example).run({"request": "Ada"}, models=local.named, sandbox=sandbox)
    assert state["message"] == "Created profile for Ada"
    assert [body["model"] for body in endpoint.asked] == ["gpt-4", "gpt-4"]


async def test_without_a_model_the_line_of_the_file_names_it(example, endpoint, here, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    endpoint.replies = [GOOD]
    state = await Workflow.from_text(example).run({"request": "Ada"}, sandbox=here)
    assert state["success"] is True
    assert endpoint.asked[0]["model"] == "gpt-4"


def test_run_sync_runs_where_no_loop_does(example, here):
    model = ScriptedModel([GOOD])
    assert (
        Workflow.from_text(example).run_sync({"request": "x"}, model=model, sandbox=here)["success"] is True
    )


@both_loops
async def test_run_sync_says_what_to_do_within_a_loop(example):
    with pytest.raises(SessionError, match=r"await workflow\.run"):
        Workflow.from_text(example).run_sync({})


# -- the other actions


async def test_validate_and_route_by_the_verdict(here):
    workflow = nodes("""
  - name: validate_output
    uses: reflection.evaluate
    with:
      data: "{{ state.generated_json }}"
      evaluator_type: schema
      schema: {type: object, required: [status, data]}
    output: validation
  - name: check_result
    run: |
      if state["validation"]["valid"]:
          return {"status": "valid"}
      else:
          return {"status": "invalid", "errors": state["validation"]["errors"]}
""")
    state = await workflow.run({"generated_json": {"status": 1, "data": 2}}, sandbox=here)
    assert state["status"] == "valid"
    assert "valid" not in state
    state = await workflow.run({"generated_json": '{"status": 1}'}, sandbox=here)
    assert (state["status"], state["errors"][0]["message"]) == ("invalid", "'data' is a required property")


async def test_correct_by_prompt():
    workflow = nodes("""
  - name: fix_json
    uses: reflection.correct
    with:
      data: "{{ state.invalid_json }}"
      errors: "{{ state.validation_errors }}"
      prompt: |
        Fix this JSON:
        {{ state.invalid_json | tojson }}

        Errors: {{ state.validation_errors | tojson }}
    output: corrected
""")
    model = ScriptedModel(["{}"])
    state = await workflow.run({"invalid_json": "{", "validation_errors": ["open"]}, model=model)
    assert state["corrected"] == {"success": True, "corrected_output": "{}"}
    assert model.calls[0].messages[0].content == 'Fix this JSON:\n"{"\n\nErrors: ["open"]'


async def test_a_fallback_uses_the_best_attempt(here):
    workflow = nodes("""
  - name: generate_with_fallback
    uses: reflection.loop
    with:
      generator: {action: llm.call, prompt: "Generate content..."}
      evaluator: {type: schema, schema: {type: object, required: [content], properties: {content: {maxLength: 3}}}}
      max_iterations: "{{ state.most }}"
      on_failure: return_best  # Return best attempt instead of failing
    output: result
  - name: handle_result
    run: |
      if state.get("success"):
          return {"content": state["result"]["content"]}
      else:
          # Use best attempt or fallback
          best = state.get("reflection_best", {})
          return {"content": best.get("content", "Default content")}
""")
    run = lambda replies: workflow.run({"most": 2}, model=ScriptedModel(replies), sandbox=here)  # noqa: E731
    assert (await run(['{"content": "abc"}']))["content"] == "abc"
    assert (await run(["{}", '{"content": "abcd"}']))["content"] == "abcd", "one error each: the later counts"
    assert (await run(["{}", "{}"]))["content"] == "Default content"


async def test_a_node_whose_action_returns_no_json_is_named():
    workflow = nodes("  - {name: odd, uses: my.own, output: it}")
    workflow.register_action("my.own", lambda state, parameters: object())
    with pytest.raises(
        WorkflowError, match=r"line 2: node 'odd': the action my.own returned a value that is not JSON"
    ):
        await workflow.run()


@both_loops
async def test_own_actions_generate_correct_and_run_as_nodes():
    workflow = nodes("""
  - name: loop
    uses: reflection.loop
    with:
      generator: {action: my.count, by: "{{ state.step }}"}
      corrector: {action: my.count, by: "{{ state.reflection_output }}"}
      evaluator: {type: schema, schema: {const: 4}}
  - name: tell
    uses: my.tell
    with: {text: "got {{ state.reflection_output }}"}
""")

    async def count(state, parameters):
        return parameters["by"] * 2

    def tell(state, parameters):
        state["step"] = 99
        return {"told": parameters["text"]}

    with pytest.raises(WorkflowFileError, match=r"there is no action 'my.count'"):
        await workflow.run({"step": 1})
    workflow.register_action("my.count", count)
    workflow.register_action("my.tell", tell)
    state = await workflow.run({"step": 1})
    assert (state["told"], state["step"], state["reflection_iteration"]) == ("got 4", 1, 2)
    for name, action in (("llm.call", tell), ("reflection.loop", tell), (" ", tell), ("x", 3)):
        with pytest.raises(ConfigurationError):
            workflow.register_action(name, action)


async def test_llm_call_as_a_node_gives_its_reply_and_usage():
    workflow = Workflow.from_text("""
nodes:
  - name: ask
    uses: llm.call
    with:
      model: small
      system: "Speak {{ state.language }}."
      messages: [{role: user, content: "{{ state.data }}"}]
      temperature: 0.5
      max_tokens: 10
    output: reply
  - name: ask_again
    uses: llm.call
    with: {prompt: "{{ state.reply.content }}", model: "{{ state.reply.model }}"}
""")
    model = ScriptedModel(["{{ state }}", "two"], name="small")
    state = await workflow.run({"language": "Norwegian", "data": {"a": 1}}, models={"small": model})
    assert state["reply"]["content"] == "{{ state }}"
    assert set(state["reply"]["usage"]) == {"input_tokens", "output_tokens"}
    first, second = model.calls
    assert [(m.role, m.content) for m in first.messages] == [
        ("system", "Speak Norwegian."),
        ("user", '{"a": 1}'),
    ]
    assert (first.sampling.temperature, first.sampling.max_tokens) == (0.5, 10)
    # What a model said is never a template.
    assert second.messages[0].content == "{{ state }}"
    assert state["content"] == "two"


async def test_a_generated_output_does_not_choose_the_next_model():
    workflow = nodes("""
  - name: loop
    uses: reflection.loop
    with:
      generator: {action: llm.call, prompt: x}
      evaluator: {type: schema, schema: {type: object}}
  - name: ask
    uses: llm.call
    with: {prompt: y}
""")
    model = ScriptedModel(['{"llm_model": "dearest", "llm_provider": "p"}', "fine"])
    asked = []
    state = await workflow.run({"llm_model": "cheap"}, models=lambda name: asked.append(name) or model)
    assert asked == ["cheap", "cheap"]
    assert state["llm_model"] == "cheap"


# -- routes


COUNT = """
  - name: count
    run: |
      return {"n": state.get("n", 0) + 1}
    goto:
      - when: "state.n < 3"
        to: count
      - when: state.n == 5
        to: __end__
  - name: after
    run: |
      return {"after": True}
"""


async def test_routes_hold_in_order_and_else_the_next_node_follows(here):
    state = await nodes(COUNT).run({}, sandbox=here)
    assert state == {"n": 3, "after": True}
    assert await nodes(COUNT).run({"n": 4}, sandbox=here) == {"n": 5}


async def test_a_cycle_without_an_end_is_stopped(here):
    workflow = Workflow.from_text(
        "settings: {max_steps: 7}\nnodes:\n  - {name: a, run: 'x = 1'}\n  - {name: b, run: 'x = 1', goto: a}"
    )
    with pytest.raises(WorkflowError, match=r"not at its end after 7 nodes \(the last: b -> a -> b -> a\)"):
        await workflow.run(sandbox=here)


# -- the state


@pytest.mark.parametrize("output", ["", ", output: out"])
async def test_a_result_is_merged_or_named_and_a_loops_is_both(here, output):
    code = '\'return {"a": 2, "c": 3}\''
    before = {"a": 1, "b": 1, "exhausted": True}
    state = await nodes(f"  - {{name: n, run: {code}{output}}}").run(before, sandbox=here)
    merged = {"out": {"a": 2, "c": 3}} if output else {"a": 2, "c": 3}
    assert state == {**before, **merged}
    loop = f"{{generator: {{run: {code}}}, evaluator: {{type: schema, schema: {{}}}}}}"
    looped = await nodes(f"  - {{name: n, uses: reflection.loop, with: {loop}{output}}}").run(
        before, sandbox=here
    )
    assert (looped["a"], looped["b"], looped["c"], "exhausted" in looped) == (2, 1, 3, False)
    assert not output or looped["out"]["a"] == 2


async def test_a_second_loop_that_succeeds_forgets_the_firsts_exhaustion():
    loop = """
  - name: {name}
    uses: reflection.loop
    with:
      generator: {{action: llm.call, prompt: x}}
      evaluator: {{type: schema, schema: {{type: object}}}}
      max_iterations: 1
"""
    workflow = nodes(loop.format(name="one") + loop.format(name="two"))
    state = await workflow.run(model=ScriptedModel(["no", '{"exhausted": 1}']))
    assert (state["success"], "exhausted" in state) == (True, False)


def test_an_output_is_not_named_as_what_the_loop_sets():
    for name in CONTROL_KEYS:
        with pytest.raises(WorkflowFileError, match="a name that the loop itself sets"):
            nodes(f"  - {{name: a, run: x, output: {name}}}")


async def test_a_result_that_is_no_object_needs_a_name(here):
    with pytest.raises(
        WorkflowError, match=r"line 2: node 'a': the result is not an object .* name it with `output:`"
    ):
        await nodes("  - {name: a, run: return 5}").run(sandbox=here)
    assert await nodes("  - {name: a, run: return 5, output: five}").run(sandbox=here) == {"five": 5}


# -- what goes wrong


@table(
    ("text", "said"),
    [
        ("noddes: []", "line 1: noddes: unknown key 'noddes': did you mean 'nodes'?"),
        ("name: x", "nodes is missing"),
        ("- 1", "[1] is not of type 'object'"),
        ("nodes: []", "nodes: [] should be non-empty"),
        ("nodes: [{run: x}]", "name is missing"),
        ("nodes: [{name: 5, run: x}]", "nodes[0].name: 5 is not of type 'string'"),
        ("nodes: [{name: a}]", "either run (code) or uses"),
        ("nodes: [{name: a, run: x, uses: llm.call}]", "either run (code) or uses"),
        ("nodes: [{name: a, run: ' '}]", "there is no code"),
        ("nodes: [{name: a, run: x, language: phyton}]", "did you mean 'python'"),
        ("nodes:\n- {name: a, run: x}\n- name: a\n  run: x", "line 3: node 'a': another node has this name"),
        ("nodes: [{name: __end__, run: x}]", "can't be the name"),
        (
            "nodes: [{name: a, run: x, goto: bb}, {name: bbb, run: x}]",
            "there is no node 'bb': did you mean 'bbb'",
        ),
        ("nodes: [{name: a, run: x, goto: [{when: 'state.', to: a}]}]", "template: expected"),
        ("nodes: [{name: a, run: x, goto: [{when: 3, to: a}]}]", "must be true, false or an expression"),
        ("nodes: [{name: a, run: x, goto: []}]", "goto: [] should be non-empty"),
        ("nodes: [{name: a, run: x, with: {}}]", "with belongs to uses, not to run"),
        ("nodes: [{name: a, uses: ''}]", "uses: the action has no name"),
        (
            "nodes:\n- name: a\n  run: x\n  goto:\n  - a\n  - b",
            "line 6: node 'a', goto[1]: there is no node 'b'",
        ),
        ("nodes: [{name: a, uses: x, language: lua}]", "language belongs to run, not to uses"),
        ("nodes: [{name: a, uses: x, next: a}]", "unknown key 'next'"),
        (
            "nodes: [{name: a, uses: llm.call, with: {prompt: x, temprature: 1}}]",
            "did you mean 'temperature'",
        ),
        ("nodes: [{name: a, uses: llm.call, with: {prompt: '{{ x'}}]", "prompt: line 1 of the template"),
        ("nodes: [{name: a, uses: llm.call, with: [x]}]", "with: ['x'] is not of type 'object'"),
        ("nodes: [{name: a, uses: reflection.loop, with: {}}]", "generator is missing"),
        ("nodes: [{name: a, uses: reflection.evaluate, with: {data: 1}}]", "schema is missing"),
        ("nodes: [{name: a, uses: reflection.evaluate, with: {schema: s.json}}]", "write {$ref: file.json}"),
        (
            "nodes: [{name: a, uses: reflection.evaluate, with: {evaluator_type: oracle}}]",
            "evaluator_type: must be one of schema, llm, custom, not 'oracle'",
        ),
        ("nodes: [{name: a, uses: reflection.correct, with: {}}]", "one of run, prompt and corrector_action"),
        (
            "nodes: [{name: a, uses: reflection.correct, with: {run: x, prompt: y}}]",
            "one corrector is enough",
        ),
        (
            "nodes: [{name: a, uses: reflection.correct, with: {corrector_action: llm.call, model: m}}]",
            "node 'a', with: llm.call takes either prompt or messages",
        ),
        (
            "nodes: [{name: a, uses: reflection.correct, with: {corrector_action: reflection.loop}}]",
            "an action of nodes",
        ),
        (
            "nodes: [{name: a, uses: reflection.correct, with: {corrector_action: ' '}}]",
            "with.corrector_action: the action has no name",
        ),
        (
            "settings: {max_steps: 0}\nnodes: [{name: a, run: x}]",
            "line 1: settings.max_steps: 0 is less than the minimum of 1",
        ),
        ("settings: []\nnodes: [{name: a, run: x}]", "settings: [] is not of type 'object'"),
        ("settings: {trusted: true}\nnodes: [{name: a, run: x}]", "unknown key 'trusted'"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(text, said):
    with pytest.raises(WorkflowFileError) as error:
        Workflow.from_text(text)
    assert said in str(error.value)


@table(
    ("line", "said"),
    [
        (
            "max_iterations: 0",
            "line 11: node 'a', with.max_iterations: must be a whole number from 1 to 1000",
        ),
        (
            "on_failure: shrug",
            "line 11: node 'a', with.on_failure: must be one of return_best, return_last, raise",
        ),
        ("max_iteration: 3", "line 11: node 'a', with.max_iteration: unknown key"),
        ("corrector: {run: x, actoin: y}", "line 11: node 'a', with.corrector.actoin: unknown key 'actoin'"),
        ("corrector: {action: reflection.loop}", "an action of nodes"),
    ],
)
def test_a_parameter_of_a_loop_is_refused_at_its_line(line, said):
    text = f"""nodes:
  - name: a
    uses: reflection.loop
    with:
      generator:
        run: |
          return 1
      evaluator:
        type: schema
        schema: {{}}
      {line}
"""
    with pytest.raises(WorkflowFileError) as error:
        Workflow.from_text(text)
    assert said in str(error.value)


def test_schemas_in_files_are_checked_when_the_workflow_is_loaded(tmp_path):
    text = "nodes: [{name: a, uses: reflection.evaluate, with: {data: {}, schema: {$ref: s.json}}}]"
    (tmp_path / "w.yaml").write_text(text)
    with pytest.raises(WorkflowFileError, match=r"w.yaml, line 1: node 'a', with.schema: .*no such file"):
        Workflow.load(tmp_path / "w.yaml")
    (tmp_path / "s.json").write_text('{"required": ["x"]}')
    assert Workflow.load(tmp_path / "w.yaml").run_sync()["valid"] is False
    assert Workflow.from_text(text, base_folder=tmp_path).run_sync()["valid"] is False
    with pytest.raises(ConfigurationError, match="give base_folder"):
        Workflow.from_text(text)


@both_loops
async def test_errors_of_a_node_name_it_and_keep_their_kind(here):
    with pytest.raises(WorkflowError, match=r"node 'a'.*ZeroDivisionError"):
        await nodes("  - {name: a, run: 1/0}").run(sandbox=here)
    ask = nodes("  - {name: ask, uses: llm.call, with: {prompt: x}}")
    with pytest.raises(errors.ModelTimeoutError) as error:
        await ask.run(model=ScriptedModel([errors.ModelTimeoutError("slow")]))
    assert any("node 'ask'" in note for note in error.value.__notes__)
    raising = """
  - name: a
    uses: reflection.loop
    with:
      generator: {action: llm.call, prompt: x}
      evaluator: {type: schema, schema: {type: object}}
      on_failure: raise
"""
    with pytest.raises(ReflectionFailedError) as failed:
        await nodes(raising).run(model=ScriptedModel(["no"] * 3))
    assert len(failed.value.history) == 3


async def test_a_name_that_is_missing_from_the_state_ends_the_loop_at_once(example, here):
    model = ScriptedModel([])
    with pytest.raises(
        WorkflowError, match=r"line \d+: node 'generate_profile', with.generator.prompt, line 2 .*'request'"
    ):
        await Workflow.from_text(example).run({"reqest": "x"}, model=model, sandbox=here)


@both_loops
async def test_listeners_hear_the_nodes_and_the_drafts_without_secrets(example, here, caplog):
    heard = []
    secret = "sk-proj-abcdefABCDEF0123456789abcdef"
    model = ScriptedModel([f'{{"name": "{secret}"}}', GOOD])
    with caplog.at_level(logging.DEBUG):
        await Workflow.from_text(example).run(
            {"request": secret}, model=model, sandbox=here, listener=heard.append
        )
    kinds = [event.kind for event in heard]
    assert kinds.count("refinement.draft_judged") == 2
    nodes = [event.data["node"] for event in heard if event.kind == "agent.event"]
    assert nodes == ["generate_profile", "use_profile"]
    assert secret not in repr(heard) + caplog.text


# -- code


@both_loops
async def test_an_endless_loop_is_stopped_and_the_workflow_says_so():
    workflow = nodes("  - {name: spin, run: 'while True: pass'}")
    started = time.monotonic()
    async with Sandbox(SandboxLimits(seconds=0.5), allow_weaker=True) as sandbox:
        with pytest.raises(WorkflowError, match="node 'spin'") as error:
            await workflow.run(sandbox=sandbox)
    assert isinstance(error.value.__cause__, errors.CodeLimitError)
    assert time.monotonic() - started < 30


@table("code", ["return {'x': 'a' * 10**9}", "while True: print('a' * 10**6)", "return {'f': print}"])
async def test_code_that_makes_too_much_or_what_is_no_json_is_stopped(code):
    workflow = nodes(f"  - name: much\n    run: |\n      {code}\n")
    async with Sandbox(SandboxLimits(seconds=20), allow_weaker=True) as sandbox:
        with pytest.raises(WorkflowError, match="node 'much'") as error:
            await workflow.run(sandbox=sandbox)
    assert isinstance(error.value.__cause__, errors.SandboxError)
    assert len(str(error.value)) < 5000


async def test_code_that_ends_its_process_ends_no_more_than_that():
    workflow = nodes("  - {name: leave, run: 'import os; os._exit(0)'}")
    async with Sandbox(allow_weaker=True) as sandbox:
        with pytest.raises(WorkflowError, match="node 'leave'"):
            await workflow.run(sandbox=sandbox)


@both_loops
async def test_cancelling_a_workflow_cancels_what_it_waits_for():
    class Slow(ScriptedModel):
        async def complete(self, messages, **options):
            await anyio.sleep_forever()

    workflow = nodes("  - {name: ask, uses: llm.call, with: {prompt: x}}")
    with anyio.move_on_after(0.1) as scope:
        await workflow.run(model=Slow([]))
    assert scope.cancelled_caught
