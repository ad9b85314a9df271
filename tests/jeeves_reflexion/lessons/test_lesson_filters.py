"""Lessons narrowed by the tools of their tasks, over every store."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jeeves_reflexion import (
    ConfigurationError,
    Curator,
    LessonSettings,
    Provenance,
    Reflection,
    Task,
    VectorLessonStore,
)
from jeeves_reflexion.lessons.filters import lesson_filter, tool_marks
from jeeves_reflexion.lessons.history import Change
from vectorstores import FaissVectorStore, HashingEmbedder, InMemoryVectorStore, open_store
from vectorstores.filters import parse

PROMPT = "put a clean mug on the desk"
TAUGHT = {
    "both": (("look", "Search"), "Look into the sink before you search any shelf."),
    "look": (("look",), "Count the drawers from the left, as their labels are worn."),
    "go": (("go",), "Walk around the table, because the direct way is blocked."),
    "none": ((), "Say what is missing when a mug can't be found at all."),
}


@pytest.fixture(params=["memory", "disk", "postgres"])
def open_lessons(request: pytest.FixtureRequest, tmp_path, anyio_backend):
    """A function that opens the same lessons with the settings given."""
    if request.param == "postgres":
        if anyio_backend != "asyncio":
            pytest.skip("psycopg runs on asyncio only")
        address = request.getfixturevalue("postgres_database")
        store = open_store(address, embedder=HashingEmbedder(), namespace="tests")
    elif request.param == "disk":
        store = FaissVectorStore(tmp_path / "store", embedder=HashingEmbedder(), namespace="tests")
    else:
        store = InMemoryVectorStore(HashingEmbedder(), namespace="tests")

    def opened(where=None, **settings) -> VectorLessonStore:
        given = LessonSettings(where=None if where is None else lambda task: where, **settings)
        return VectorLessonStore(store, settings=given)

    return opened


async def teach(lessons: VectorLessonStore) -> dict[str, str]:
    """Store the lessons, and return their names by their ids."""
    names = {}
    for name, (tools, text) in TAUGHT.items():
        task = Task(PROMPT, tools=tools)
        lesson = await lessons.record(task, Reflection(text), provenance=Provenance("run", 1, 0.0))
        names[lesson.id] = name
    return names


CASES = [
    ({"tool": "look"}, {"both", "look"}),
    ({"tool": "search"}, {"both"}),
    ({"tool": "SEARCH"}, {"both"}),
    ({"tool": "loo"}, set()),
    ({"tool": None}, set()),
    ({"tool": {"$in": ["go", "search"]}}, {"both", "go"}),
    ({"tool": ["go", "search"]}, {"both", "go"}),
    ({"tool": {"$in": []}}, set()),
    ({"$not": {"tool": "look"}}, {"go", "none"}),
    ({"$and": [{"tool": {"$in": ["look"]}}, {"$not": {"tool": "search"}}]}, {"look"}),
    ({"$or": [{"tool": "go"}, {"tools": []}]}, {"go", "none"}),
    ({"$and": [{"tool": "look"}, {"tool": "search"}]}, {"both"}),
    ({"tool": "look", "run_id": "another"}, set()),
    ({"tool": "look", "run_id": "run"}, {"both", "look"}),
]


@pytest.mark.anyio
async def test_a_recall_is_narrowed_by_the_tools_of_lessons(open_lessons):
    async with open_lessons(keep_copies=True) as lessons:
        names = await teach(lessons)
        for where, expected in CASES:
            recall = await open_lessons(where).recall(Task(PROMPT), k=4)
            assert {names[item.lesson.id] for item in recall.offered} == expected, where
            told = await open_lessons(where).explain(Task(PROMPT), k=4)
            assert {names[item.lesson.id] for item in told.offered} == expected, where


@pytest.mark.anyio
async def test_a_lesson_that_is_changed_keeps_its_tools(open_lessons):
    async with open_lessons(keep_copies=True) as lessons:
        names = await teach(lessons)
        for lesson_id in names:
            await lessons.repository.change(lesson_id, lambda now: replace(now, support=2), Change("edit"))
        recall = await open_lessons({"tool": "search"}).recall(Task(PROMPT), k=4)
        assert [names[item.lesson.id] for item in recall.offered] == ["both"]


@pytest.mark.anyio
async def test_a_retired_lesson_is_explained_within_the_same_filter(open_lessons):
    async with open_lessons(keep_copies=True) as lessons:
        names = await teach(lessons)
        for lesson_id in names:
            await lessons.repository.change(
                lesson_id, lambda now: replace(now, state="retired"), Change("edit")
            )
        told = await open_lessons({"tool": "go"}).explain(Task(PROMPT), k=4)
        assert [names[item.lesson.id] for item in told.left_out] == ["go"]


@pytest.mark.anyio
async def test_an_order_of_tools_is_refused():
    store = InMemoryVectorStore(HashingEmbedder(), namespace="tests")
    settings = LessonSettings(where=lambda task: {"tool": {"$gt": "a"}})
    async with VectorLessonStore(store, settings=settings) as lessons:
        with pytest.raises(ConfigurationError, match="tool can be filtered by a name"):
            await lessons.recall(Task(PROMPT), k=1)


NAMES = ("look", "Go", "search")
conditions = st.one_of(
    st.sampled_from(NAMES),
    st.lists(st.sampled_from(NAMES), max_size=2).map(lambda names: {"$in": names}),
    st.lists(st.sampled_from(NAMES), max_size=2),
)
leaves = st.one_of(
    conditions.map(lambda condition: {"tool": condition}), st.booleans().map(lambda own: {"own": own})
)
filters = st.recursive(
    leaves,
    lambda inner: st.one_of(
        inner.map(lambda one: {"$not": one}),
        st.lists(inner, max_size=3).map(lambda some: {"$and": some}),
        st.lists(inner, max_size=3).map(lambda some: {"$or": some}),
        st.tuples(conditions, inner).map(lambda two: {"tool": two[0], "$not": two[1]}),
    ),
    max_leaves=6,
)


def holds(where, tools: set[str], own: bool) -> bool:
    """What a filter says of a lesson, told from the words of the documentation."""

    def one(key, value):
        match key:
            case "$not":
                return not holds(value, tools, own)
            case "$and":
                return all(holds(part, tools, own) for part in value)
            case "$or":
                return any(holds(part, tools, own) for part in value)
            case "own":
                return own is value
        named = value["$in"] if isinstance(value, dict) else [value] if isinstance(value, str) else value
        return any(each.casefold() in tools for each in named)

    return all(one(key, value) for key, value in where.items())


@given(where=filters, tools=st.lists(st.sampled_from(NAMES), max_size=3), own=st.booleans())
def test_a_filter_means_what_the_documentation_says(where, tools, own):
    metadata = {"tools": tools, "own": own, **tool_marks(tools)}
    assert parse(lesson_filter(where)).matches(metadata) == holds(
        where, {tool.casefold() for tool in tools}, own
    )


@pytest.mark.anyio
async def test_lessons_are_listed_and_searched_by_tool_and_state(open_lessons):
    lessons = open_lessons(where=None)
    async with lessons:
        names = await teach(lessons)
        (retired,) = (each for each, name in names.items() if name == "look")
        await Curator(lessons.repository).retire(retired, reason="the labels were renewed")

        async def listed(where):
            return {names[each.id] for each in (await lessons.list(where=where)).lessons}

        async def searched(**asked):
            return {names[each.lesson.id] for each in await lessons.search(PROMPT, **asked)}

        assert await listed({"tool": "look"}) == {"both", "look"}
        assert await listed({"tool": "look", "state": "active"}) == {"both"}
        assert await listed({"state": "retired"}) == await searched(state="retired") == {"look"}
        assert await searched(where={"tool": ["look", "go"]}) == {"both", "go"}
        assert await searched(where={"tool": "go"}, state="retired") == set()
        assert await searched(state=None) == {*TAUGHT}
