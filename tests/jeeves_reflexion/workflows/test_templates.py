"""Templates: what they can say, what they refuse, and the bounds that they can't get around."""

from __future__ import annotations

import anyio
import pytest
from tables import table

from jeeves_reflexion.workflows import TemplateError, WorkflowFileError, templates
from jeeves_reflexion.workflows.templates import holds, render, render_text

pytestmark = pytest.mark.anyio

STATE = {
    "request": "a profile {{ 7 * 7 }}",
    "data": {"items": [1, 2], "get": "own", "deep": {"x": None}},
    "errors": [{"path": "a.b", "message": 'is <missing> & "bad"'}, {"path": "", "message": "too short"}],
    "n": 3,
}


async def rendered(source):
    return await render(source, STATE, "node 'a', prompt")


@table(
    ("source", "value"),
    [
        ("{{ state.data }}", STATE["data"]),
        ("{{ state['data'].items }}", [1, 2]),
        ("{{ state.data.get }}", "own"),
        ("{{ state.n + 1 }}\n", 4),
        ("{{ state.n > 2 and 'x' not in state }}", True),
        ("{{ state.nothing | default({'a': 1}) }}", {"a": 1}),
        ("{{ state.get('nothing', 'd') }}", "d"),
        ("{{ state.errors | map(attribute='path') | list }}", ["a.b", ""]),
        ("{{ 1 if false }}", None),
        (
            "n = {{ state.n }}, {{ state.data }}",
            'n = 3, {"items": [1, 2], "get": "own", "deep": {"x": null}}',
        ),
        ("{{ state.request }}", "a profile {{ 7 * 7 }}"),
        ("{{ state.errors[0].message | tojson }}!", '"is <missing> & \\"bad\\""!'),
        (
            "{% for e in state.errors %}\n- {{ loop.index }} {{ e.path }}\n{% endfor %}\nend",
            "- 1 a.b\n- 2 \nend",
        ),
        ("{{ 'a' ~ state.n ~ state.data.items }}", "a3[1, 2]"),
        (
            "{{ state.errors | map(attribute='message') | join('; ') | upper | truncate(12, true) }}",
            "IS <MISSI...",
        ),
        ("{{ 'a\nb' | indent(2) }}.", "a\n  b."),
        ("no template: {a} % }", "no template: {a} % }"),
        ({"k": ["{{ state.n }}", 5]}, {"k": [3, 5]}),
    ],
)
async def test_what_a_template_comes_to(source, value):
    assert await rendered(source) == value


@table(
    ("source", "said"),
    [
        ("{{ state.requst }}", "node 'a', prompt: 'dict object' has no attribute 'requst'"),
        (
            "one\n{{ state.data.nope }}",
            "line 2 of the template: 'dict object' has no attribute 'nope'",
        ),
        (
            "{{ state.n + state.nope }}",
            "prompt, line 1 of the template: 'dict object' has no attribute 'nope'",
        ),
        ("{{ stat.x }}", "line 1 of the template: 'stat' is undefined"),
        ("{% if state.nope %}x{% endif %}", "no attribute 'nope'"),
        ("{{ state.nope | tojson }} z", "no attribute 'nope'"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ {1: 2} }}", "the key 1 is not a text"),
    ],
)
async def test_what_is_not_there_is_an_error_that_says_where(source, said):
    with pytest.raises(TemplateError) as error:
        await rendered(source)
    assert said in str(error.value)


@table(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ state.__class__ }}",
        "{{ state['__class__'] }}",
        "{{ state.data.items.append(3) }}",
        "{{ state.update({}) }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ '{a}'.format_map({}) }}",
        "{{ 'a' | attr('__class__') }}",
        "{{ '%9999999999d' % 1 }}",
        "{{ 'a'.ljust(10 ** 9) }}",
        "{{ 'a' | center(10 ** 9) }}",
        "{{ 'a' * 10 ** 9 }}",
        "{{ [0] * 10 ** 9 }}",
        "{{ 2 ** 99999 }}",
        "{{ 'a' | indent(10 ** 9) }}",
        "{{ [1] | tojson(indent=10 ** 9) }}",
        "{{ range(10 ** 9) | list }}",
        "{% for a in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
        "{% for a in range(9999) %}{{ (state | tojson) * 9999 }}{% endfor %}",
        "{% set a = 'x' * 999999 %}{% set a = a ~ a %}{% set a = a ~ a %}{{ a }}",
        "{% set a = [1] %}"
        + "{% set a = [a, a] %}" * 15
        + "{{ [[a, a, a, a], [a, a, a, a], [a, a, a, a], [a, a, a, a]] * 9 }} ",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{{ 'aaaa' | replace('', 'x' * 999999) }}!",
        "{{ 'a' * 300000000 }}",
        "{{ lipsum(9) }}",
        "{{ cycler }}",
        "{{ namespace() }}",
        "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
        "{{ (",
        "{% for %}",
    ],
)
async def test_what_could_run_away_or_get_out_is_refused_in_time(source):
    with pytest.raises((TemplateError, WorkflowFileError)) as error:
        await rendered(source)
    assert "node 'a', prompt" in str(error.value)
    assert await rendered("{{ state.n }}") == 3  # the next one is filled in as ever


LINKS = ("|upper|lower", "|replace('a', 'b')", "|sort|list", ".upper().lower()", " + 'a'")
NESTED = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize("source", [NESTED, *("{{ state.long" + link * 3_000 + " }}" for link in LINKS)])
async def test_a_template_ends_in_time_while_the_event_loop_goes_on(monkeypatch, source):
    monkeypatch.setattr(templates, "MAX_SECONDS", 0.5)
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await anyio.sleep(0.01)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        with pytest.raises(
            (TemplateError, WorkflowFileError), match=r"takes longer than 0\.5 s|nested too deeply"
        ):
            await render(source, {"long": "abc " * 50_000}, "x")
        tasks.cancel_scope.cancel()
    assert turns > 1


async def test_a_text_stays_a_text_where_a_text_is_wanted():
    assert await render_text("{{ state.data.deep }}", STATE, "x") == '{"x": null}'


@table(
    ("condition", "true"), [("state.n > 2", True), ("{{ state.n > 5 }}", False), (True, True), (False, False)]
)
async def test_conditions_are_expressions_with_or_without_braces(condition, true):
    assert await holds(condition, STATE, "goto") is true
