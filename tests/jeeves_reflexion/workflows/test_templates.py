"""Templates: what they can say, what they refuse, and the bounds that they can't get around."""

from __future__ import annotations

import contextlib
import threading
import time

import anyio
import anyio.to_thread
import pytest

from jeeves_reflexion.workflows import TemplateError, WorkflowFileError, template_sandbox
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


@pytest.mark.parametrize(
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
        ("{{ state.errors | map(attribute='message') | join('; ') | upper | truncate(12) }}", "IS <MISSI..."),
        ("{{ 'a\nb' | indent(2) }}.", "a\n  b."),
        ("no template: {a} % }", "no template: {a} % }"),
        ({"k": ["{{ state.n }}", 5]}, {"k": [3, 5]}),
    ],
)
async def test_what_a_template_comes_to(source, value):
    assert await rendered(source) == value


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{{ state.requst }}", "node 'a', prompt: there is no 'requst': did you mean 'request'?"),
        (
            "one\n{{ state.data.nope }}",
            "line 2 of the template: there is no 'nope': there is deep, get, items",
        ),
        ("{{ stat.x }}", "there is no 'stat' here: a template sees `state`"),
        ("{% if state.nope %}x{% endif %}", "there is no 'nope'"),
        ("{{ state.nope | tojson }} z", "there is no 'nope'"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ {1: 2} }}", "the key 1 is no text"),
    ],
)
async def test_what_is_not_there_is_an_error_that_says_where(source, said):
    with pytest.raises(TemplateError) as error:
        await rendered(source)
    assert said in str(error.value)


@pytest.mark.parametrize(
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
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
        "{% for a in range(9999) %}{{ (state | tojson) * 9999 }}{% endfor %}",
        "{% set a = 'x' * 999999 %}{% set a = a ~ a %}{% set a = a ~ a %}{{ a }}",
        "{% set a = [1] %}"
        + "{% set a = [a, a] %}" * 15
        + "{{ [[a, a, a, a], [a, a, a, a], [a, a, a, a], [a, a, a, a]] * 9 }} ",
        "{% set a = [1] %}" + "{% set a = [a, a] %}" * 40,
        "{{ 'aaaa' | replace('', 'x' * 999999) }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% set a %}x{% endset %}",
        "{{ lipsum(9) }}",
        "{{ cycler }}",
        "{{ namespace() }}",
        "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
        "{{ (",
        "{% for %}",
    ],
)
async def test_what_could_run_away_or_get_out_is_refused_in_time(source):
    started = time.process_time()
    with pytest.raises((TemplateError, WorkflowFileError)) as error:
        await rendered(source)
    assert time.process_time() - started < 4
    assert "node 'a', prompt" in str(error.value)


@pytest.mark.parametrize("many", [30, 60, 300, 3_000])
@pytest.mark.parametrize(
    "link", ["|upper|lower", "|replace('a', 'b')", "|sort|list", ".upper().lower()", " + 'a'"]
)
async def test_a_chain_takes_no_longer_than_a_chain_should(many, link):
    started = time.process_time()
    source = "{{ state.data.long" + link * many + " }}"
    with contextlib.suppress(TemplateError, WorkflowFileError):
        await render(source, {"data": {"long": "abc " * 50_000}}, "x")
    assert time.process_time() - started < 4


@pytest.mark.parametrize(
    "source",
    [
        "{{ state.name|upper }}",
        "{{ state.name.upper() }}",
        "{{ state.name + 'x' }}",
        "{{ state.name ~ 'x' }}",
        "{% for each in [1] %}x{% endfor %}",
        "{{ [1]|map('string')|list }}",
    ],
)
async def test_all_that_takes_time_looks_at_the_clock(monkeypatch, source):
    monkeypatch.setattr(template_sandbox, "MAX_SECONDS", -1.0)
    with pytest.raises(TemplateError, match="takes longer than"):
        await render(source, {"name": "Ada"}, "x")


async def test_the_event_loop_goes_on_meanwhile(monkeypatch):
    let_go = threading.Event()
    monkeypatch.setitem(
        template_sandbox.environment.filters, "upper", lambda text: text if let_go.wait(20) else "never"
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, let_go.set)
        assert await render("{{ state.name|upper }}!", {"name": "Ada"}, "x") == "Ada!"


async def test_a_template_is_read_off_the_event_loop_too(monkeypatch, anyio_backend_name):
    threads = []
    parse = type(template_sandbox.environment)._parse

    def parsed(*arguments):
        threads.append(threading.current_thread())
        return parse(*arguments)

    monkeypatch.setattr(type(template_sandbox.environment), "_parse", parsed)
    said = f"read with {anyio_backend_name} alone"  # what was read before is kept
    assert await render(f"{{{{ state.name }}}} {said}", {"name": "Ada"}, "x") == f"Ada {said}"
    assert threads
    assert threading.current_thread() not in threads


async def test_a_text_stays_a_text_where_a_text_is_wanted():
    assert await render_text("{{ state.data.deep }}", STATE, "x") == '{"x": null}'


@pytest.mark.parametrize(
    ("condition", "true"), [("state.n > 2", True), ("{{ state.n > 5 }}", False), (True, True), (False, False)]
)
async def test_conditions_are_expressions_with_or_without_braces(condition, true):
    assert await holds(condition, STATE, "goto") is true
