"""Tools: the schema a model sees, the arguments it may send, and what comes back."""

from __future__ import annotations

import contextvars
import dataclasses
import functools
import json
import threading
from typing import Annotated, Literal

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from tables import table
from typing_extensions import TypedDict

from jeeves_reflexion.agents import Tool, as_tool
from jeeves_reflexion.errors import BudgetExceededError, ConfigurationError, ToolError
from jeeves_reflexion.protocols import ToolSpec

asynchronous = pytest.mark.anyio


def search(query: str, limit: int = 5, *, order: Literal["new", "old"] = "new") -> list[str]:
    """Search the archive.

    It holds letters only.

    Args:
        query: the words
            to look for
        limit: how many to return at most
    """
    return [f"{query}-{order}-{n}" for n in range(limit)]


class Place(BaseModel):
    city: str
    zip_code: int | None = None


class Point(TypedDict):
    x: int


def move(point: Point) -> str:
    """Move to a point."""
    return str(point["x"])


async def visit(place: Place, schema: str = "", _hidden: bool = False) -> str:
    """Visit a place."""
    return f"{type(place).__name__} {place.city} {schema} {_hidden}"


def test_the_schema_comes_from_signature_and_docstring():
    spec = as_tool(search).spec
    assert spec.name == "search"
    assert spec.description == "Search the archive.\nIt holds letters only."
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "the words to look for"},
            "limit": {"type": "integer", "default": 5, "description": "how many to return at most"},
            "order": {"type": "string", "enum": ["new", "old"], "default": "new"},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert (
        as_tool(search).usage == "search(query: string, limit: integer (optional), order: string (optional))"
    )


def test_a_list_of_types_is_shown_as_other_tools_write_it():
    schema = {"type": "object", "properties": {"limit": {"type": ["integer", "null"]}}}
    assert Tool(ToolSpec("find", "", schema), print).usage == "find(limit: integer | null (optional))"
    schema = {"type": "object", "properties": {"unit": {"type": ["string", "null"], "enum": ["km", None]}}}
    assert Tool(ToolSpec("find", "", schema), print).usage == 'find(unit: "km" | null (optional))'


def test_annotated_descriptions_and_limits_go_before_the_docstring():
    def add(a: Annotated[int, Field(description="first", ge=0)], b: Annotated[int, "second"]) -> int:
        """Add.

        Args:
            a: not this
            b: nor this
        """
        return a + b

    properties = as_tool(add).spec.parameters["properties"]
    assert properties["a"] == {"type": "integer", "minimum": 0, "description": "first"}
    assert properties["b"]["description"] == "second"


def test_a_function_without_parameters_has_an_empty_schema():
    def now() -> str:
        return "12:00"

    assert as_tool(now).spec.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


@asynchronous
async def test_arguments_become_what_the_annotations_say():
    assert json.loads(await as_tool(search).call('{"query": "x", "limit": 2}')) == ["x-new-0", "x-new-1"]
    called = await as_tool(visit).call('{"place": {"city": "Oslo"}, "schema": "s", "_hidden": true}')
    assert called == "Place Oslo s True"


@asynchronous
@table(
    ("arguments", "said"),
    [
        ("{}", "- query: is missing"),
        ('{"query": "x", "limit": "many"}', "- limit: .*valid integer.*got 'many'"),
        ('{"query": "x", "size": 1}', "- size: there is no such argument"),
        ('{"query": "x", "order": "best"}', "- order: .*'new' or 'old'"),
        ('{"query": "x"', "must be one JSON object"),
        ('["x"]', "must be one JSON object"),
    ],
)
async def test_wrong_arguments_are_told_to_the_model_field_by_field(arguments, said):
    with pytest.raises(ToolError, match=said) as caught:
        await as_tool(search).call(arguments)
    assert "expected: search(query: string" in str(caught.value)


@asynchronous
async def test_a_long_wrong_argument_is_cut():
    with pytest.raises(ToolError) as caught:
        await as_tool(search).call(json.dumps({"query": "x", "limit": "z" * 10_000}))
    assert len(str(caught.value)) < 600


@dataclasses.dataclass
class Found:
    name: str
    share: float


@asynchronous
@table(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (Found("x", float("nan")), '{"name":"x","share":NaN}'),
        (Place(city="Rome"), '{"city":"Rome","zip_code":null}'),
        (threading, repr(threading)),
        (None, "null"),
    ],
)
async def test_results_become_text(value, text):
    def give() -> object:
        return value

    assert await as_tool(give).call("") == text


@asynchronous
async def test_a_long_result_is_cut_in_the_middle():
    def long() -> str:
        return "a" * 5000 + "b" * 5000

    text = await as_tool(long, max_tokens=50).call("{}")
    assert len(text) <= 200
    assert text.startswith("aaa")
    assert text.endswith("bbb")
    assert "characters cut" in text


@asynchronous
@table("how", ["sync", "async"])
async def test_what_a_tool_raises_is_told_with_its_type(how):
    def fail() -> str:
        raise KeyError("no such shelf")

    async def fail_async() -> str:
        raise KeyError("no such shelf")

    with pytest.raises(ToolError, match="KeyError: 'no such shelf'"):
        await as_tool(fail if how == "sync" else fail_async).call("{}")


@asynchronous
async def test_an_exhausted_budget_and_a_cancel_pass_through():
    async def spend() -> str:
        raise BudgetExceededError("tokens", "used up")

    async def hang() -> str:
        await anyio.sleep(30)
        return ""

    with pytest.raises(BudgetExceededError):
        await as_tool(spend).call("{}")
    with anyio.move_on_after(0.05) as scope:
        await as_tool(hang).call("{}")
    assert scope.cancelled_caught


@asynchronous
@table("how", ["sync", "async"])
async def test_a_tool_that_takes_too_long_is_left(how):
    release, ended = threading.Event(), []

    def slow() -> None:
        ended.append(release.wait(60))

    async def slow_async() -> None:
        await anyio.sleep_forever()

    with pytest.raises(ToolError, match=r"slow\w* gave no result within 0\.1 seconds"):
        await as_tool(slow if how == "sync" else slow_async, timeout=0.1).call("{}")
    assert not ended, "it was waited for"
    release.set()


@asynchronous
async def test_a_tools_own_timeout_error_is_its_own():
    async def fail() -> str:
        raise TimeoutError("the shop is closed")

    with pytest.raises(ToolError, match="TimeoutError: the shop is closed"):
        await as_tool(fail, timeout=5).call("{}")


@asynchronous
async def test_sync_tools_run_in_a_thread_that_sees_the_context():
    where = contextvars.ContextVar("where", default="outside")

    def look() -> str:
        return f"{where.get()} {threading.current_thread() is threading.main_thread()}"

    where.set("inside")
    assert await as_tool(look).call("{}") == "inside False"


@asynchronous
async def test_methods_objects_partials_and_positional_parameters_are_tools_too():
    class Shop:
        def price(self, item: str) -> str:
            """Tell a price."""
            return f"{item} costs 1"

        async def __call__(self, item: str, /, times: int = 1) -> str:
            return item * times

    assert await as_tool(Shop().price).call('{"item": "tea"}') == "tea costs 1"
    assert await as_tool(Shop()).call('{"item": "ab", "times": 2}') == "abab"
    short = as_tool(functools.partial(search, limit=1), name="short")
    assert await short.call('{"query": "x"}') == '["x-new-0"]'

    @functools.wraps(search)
    def decorated(**named: object) -> list[str]:
        return search(**named)

    assert await as_tool(decorated).call('{"query": "x", "limit": 1}') == '["x-new-0"]'


@asynchronous
async def test_a_wrong_field_within_an_argument_is_told_as_well():
    tool = as_tool(move)
    assert await tool.call('{"point": {"x": 1}}') == "1"
    for point, said in (
        ("{}", "point.x: is missing"),
        ('{"x": 1, "z": 2}', "point.z: there is no such argument"),
    ):
        with pytest.raises(ToolError, match=said):
            await tool.call(f'{{"point": {point}}}')


def test_it_is_a_decorator_and_leaves_a_tool_as_it_is():
    @as_tool
    def plain(x: int) -> int:
        return x

    assert isinstance(plain, Tool)
    assert (plain.name, plain.timeout, plain.alone) == ("plain", 300.0, False)
    assert as_tool(plain) is plain


def no_annotation(a: int, b):
    return a, b


def starred(*words: str) -> str:
    return " ".join(words)


def double_starred(**words: str) -> str:
    return str(words)


def unknown_name(a: Nowhere) -> str:  # noqa: F821
    return str(a)


def unsayable(lock: threading.Thread) -> str:
    return str(lock)


@table(
    ("function", "said"),
    [
        (no_annotation, "no_annotation: parameter 'b' has no annotation"),
        (starred, r"starred: \*words"),
        (double_starred, r"double_starred: \*\*words"),
        (unknown_name, "unknown_name: its annotations can't be resolved.*Nowhere"),
        (unsayable, "unsayable: parameter 'lock' has a type that JSON can't express"),
        (lambda: 1, "'<lambda>'.*pass name="),
    ],
)
def test_a_signature_that_cannot_be_told_is_refused_at_once(function, said):
    with pytest.raises(ConfigurationError, match=said):
        as_tool(function)


def test_bad_settings_are_refused():
    with pytest.raises(ConfigurationError, match="timeout"):
        as_tool(search, timeout=0)
    with pytest.raises(ConfigurationError, match="max_tokens"):
        as_tool(search, max_tokens=0)


@table(
    ("argument", "arguments"),
    [
        ("moby dick", {"query": "moby dick"}),
        ('"moby dick", 3', {"query": "moby dick", "limit": 3}),
        ("query='moby = dick', limit=3", {"query": "moby = dick", "limit": 3}),
        ('{"query": "x", "order": "old"}', {"query": "x", "order": "old"}),
    ],
)
def test_the_argument_of_the_text_form_is_read(argument, arguments):
    if argument == "moby dick":
        with pytest.raises(ToolError, match="takes its arguments as a JSON object: search"):
            as_tool(search).from_text(argument)
    else:
        assert json.loads(as_tool(search).from_text(argument)) == arguments


@given(st.text().filter(lambda text: text.strip()[:1] not in {"{", "[", '"'} and text.strip()))
def test_a_tool_of_one_argument_gets_plain_text_whole(text):
    def say(words: str) -> str:
        return words

    assert json.loads(as_tool(say).from_text(text)) == {"words": text.strip()}


@table(
    ("argument", "words", "several"),
    [
        ('"quoted"', "quoted", None),
        ("[1, 2]", "[1, 2]", [1, 2]),
        ("7", "7", None),
        ("{not json", "{not json", None),
        ("[" * 2000, "[" * 2000, None),
    ],
)
def test_brackets_are_a_list_only_for_a_tool_that_takes_one(argument, words, several):
    def say(words: str) -> str:
        return words

    def add(numbers: list[int] | None) -> int:
        return sum(numbers or [])

    assert json.loads(as_tool(say).from_text(argument)) == {"words": words}
    if several is not None:
        assert json.loads(as_tool(add).from_text(argument)) == {"numbers": several}
