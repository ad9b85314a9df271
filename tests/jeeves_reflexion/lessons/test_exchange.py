"""Lessons as JSON lines: nothing is lost, nothing else is taken for one, and an import is seen before it is done."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion import LessonSettings, open_lessons
from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons import Curator, Finding
from jeeves_reflexion.lessons.exchange import (
    Line,
    export_file,
    from_line,
    import_file,
    lines_of,
    make_import,
    plan_import,
    read_lines,
    to_line,
)
from jeeves_reflexion.lessons.gate import clean
from jeeves_reflexion.lessons.history import Change
from jeeves_reflexion.types import Lesson, Provenance
from vectorstores import HashingEmbedder

pytestmark = pytest.mark.anyio

ONE = Lesson(
    "one", "Open the drawer first.", "t1", "Find a pencil", Provenance("r1", 2, 0.5, "m", "ann", 12.5)
)
TWO = Lesson("two", "Close the file.", "t2", "Copy", Provenance("r2", 0, None), trust="shared", support=7)


@pytest.fixture
async def lessons():
    async with open_lessons("memory://", embedder=HashingEmbedder(64)) as store:
        yield store


plain = st.text(max_size=20)
some = st.text(min_size=1, max_size=20).filter(str.strip)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain, inner, max_size=3),
    max_leaves=6,
)
sources = st.builds(
    Provenance,
    run_id=plain,
    attempt=st.integers(0, 99),
    score=st.none() | st.floats(0, 1),
    model=st.none() | plain,
    agent=st.none() | plain,
    created_at=st.floats(-1e9, 1e11),
)
any_lessons = st.builds(
    Lesson,
    id=some,
    text=some,
    task_id=plain,
    task_excerpt=plain,
    provenance=sources,
    task_kind=st.none() | plain,
    tools=st.lists(plain, max_size=3).map(tuple),
    outcome=st.sampled_from(["failed", "partial", "success", "decision"]),
    metadata=st.dictionaries(plain, json_values, max_size=3),
    state=st.sampled_from(["active", "proposed", "retired"]),
    state_reason=plain,
    trust=st.sampled_from(["own", "shared", "imported"]),
    support=st.integers(0, 10**6),
    contradicts=st.lists(plain, max_size=3).map(tuple),
    evidence=st.lists(st.integers(0, 99), max_size=3).map(tuple),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(any_lessons, st.lists(plain, min_size=1, max_size=3))
def test_a_line_loses_nothing(lesson, tasks):
    line = to_line(lesson, tasks)
    assert line.isascii()
    assert len(line.splitlines()) == 1
    assert from_line(line) == (lesson, tuple(tasks))


def spoiled(**changes):
    value = json.loads(to_line(ONE, ["task"]))
    value.update(changes)
    return json.dumps({name: part for name, part in value.items() if part != "drop"})


@table(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ("[" * 100_000, "not JSON"),
        ('{"format": NaN}', "NaN is not a JSON number"),
        ("{}", "its format is None"),
        (spoiled(format="other"), "its format is 'other'"),
        (spoiled(version=2), "version 1: update it"),
        (spoiled(text="drop"), "text is missing"),
        (spoiled(text=" "), "text is empty"),
        (spoiled(text=5), "text must be a valid string, not 5"),
        (spoiled(support=True), "support must be a valid integer, not True"),
        (spoiled(support=-1), "support must be greater than or equal to 0, not -1"),
        (spoiled(trust="mine"), "trust must be 'own', 'shared' or 'imported', not 'mine'"),
        (spoiled(tools="hammer"), "tools must be a valid tuple, not 'hammer'"),
        (spoiled(evidence=[1.5]), "evidence.0 must be a valid integer, not 1.5"),
        (spoiled(metadata=[]), "metadata must be a JSON object"),
        (spoiled(provenance={}), "provenance.run_id is missing"),
        (spoiled(surprise=1), "there is no field surprise"),
        (
            spoiled(provenance={**json.loads(to_line(ONE, [""]))["provenance"], "score": 2}),
            "provenance.score must be",
        ),
        (
            spoiled(provenance={**json.loads(to_line(ONE, [""]))["provenance"], "created_at": 10**400}),
            "created_at must",
        ),
    ],
)
def test_what_is_no_lesson_is_named(line, said):
    with pytest.raises(ConfigurationError, match=said):
        from_line(line)


@given(st.text(max_size=80) | json_values.map(json.dumps))
def test_anything_else_is_a_clear_error(line):
    with pytest.raises(ConfigurationError):
        from_line(line)


def test_metadata_that_json_cannot_hold_is_refused():
    with pytest.raises(ConfigurationError, match="the lesson one can't be written"):
        to_line(replace(ONE, metadata={"x": float("nan")}), "")


def test_one_bad_line_stops_everything():
    lines = [
        to_line(ONE, ["a"]),
        "",
        "nonsense",
        to_line(TWO, ["b"]),
        to_line(replace(ONE, text="Other."), ["a"]),
    ]
    with pytest.raises(
        ConfigurationError, match=r"2 of the lines.*nothing was imported: line 3: .*; line 5: .*line 1"
    ):
        read_lines(lines)
    assert [(one.number, one.lesson.id) for one in read_lines([*lines[:2], lines[3]])] == [
        (1, "one"),
        (3, "two"),
    ]


def test_the_same_line_twice_is_one_lesson():
    assert len(read_lines([to_line(ONE, ["a"])] * 2)) == 1


async def test_a_lesson_of_another_store_is_imported_and_supported_by_one(lessons):
    plan = await plan_import(lessons, [Line(1, ONE, ("a",)), Line(2, TWO, ("b",))], source="x.jsonl")
    assert str(plan) == "2 added, 0 same, 0 refused"
    assert [(line.lesson.trust, line.lesson.support) for line in plan.added] == [("imported", 1)] * 2
    assert [line.lesson.state for line in plan.added] == ["proposed"] * 2
    assert await make_import(lessons, plan, Change("import")) == 0
    again = await plan_import(lessons, [Line(1, ONE, ("a",)), Line(2, TWO, ("b",))])
    assert str(again) == "0 added, 2 same, 0 refused"


async def test_what_the_store_made_of_a_lesson_is_no_difference_and_stays(lessons):
    await make_import(
        lessons, await plan_import(lessons, [Line(1, ONE, ("a",))], approve=("active",)), Change("import")
    )
    await Curator(lessons.repository).retire("one", reason="harms")
    assert str(await plan_import(lessons, [Line(1, ONE, ("a",))])) == "0 added, 1 same, 0 refused"
    (line,) = (
        await plan_import(lessons, [Line(1, replace(ONE, text="Shut the drawer."), ("a", "c"))])
    ).refused
    assert line.reason == "a lesson with its id is imported and has other content"


async def imported(lessons, *lines):
    """Import lines without a look, and return what was new, the same and refused in words."""
    plan = await plan_import(lessons, lines, approve=("active",))
    await make_import(lessons, plan, Change("import"))
    return str(plan)


async def test_a_second_import_takes_no_edit_back(lessons):
    await imported(lessons, Line(1, ONE, ("Find a pencil",)))
    await Curator(lessons.repository).edit("one", "Open every drawer first.")
    plan = await imported(lessons, Line(1, ONE, ("Find a pencil",)))
    assert plan == "0 added, 1 same, 0 refused"
    assert (await lessons.get("one")).text == "Open every drawer first."


async def test_a_lesson_of_our_own_is_never_reworded(lessons):
    await lessons.repository.put(await clean(ONE, ["a"]), Change("learn"))
    (line,) = (await plan_import(lessons, [Line(1, replace(ONE, text="Shut the drawer."), ("a",))])).refused
    assert line.reason == "a lesson with its id is own and has other content"


async def test_an_id_that_holds_a_secret_is_refused(lessons):
    secret = replace(ONE, id="sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH")
    (line,) = (await plan_import(lessons, [Line(1, secret, ("a",))])).refused
    assert "its id" in line.reason


async def test_a_screen_of_the_store_is_asked_too():
    async def screen(text):
        return Finding("odd", "it speaks of drawers", text) if "drawer" in text else None

    async with open_lessons(
        "memory://", embedder=HashingEmbedder(64), settings=LessonSettings(screen=screen)
    ) as lessons:
        plan = await plan_import(lessons, [Line(1, ONE, ("a",)), Line(2, TWO, ("b",))])
        assert [(line.lesson.id, line.reason) for line in plan.refused] == [
            ("one", "it gives orders (odd): it speaks of drawers")
        ]
        assert [line.lesson.id for line in plan.added] == ["two"]


def test_a_file_comes_back_and_is_replaced_whole(tmp_path):
    path = tmp_path / "lessons.jsonl"
    export_file(path, [Line(1, TWO, ("b",)), Line(2, ONE, ("a\u2028\r\n\ud800",))])
    export_file(path, [Line(1, ONE, ("a\u2028\r\n\ud800",))])
    (line,) = import_file(path)
    assert (line.lesson, line.tasks) == (ONE, ("a\u2028\r\n\ud800",))
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_written_when_one_lesson_cannot_be(tmp_path):
    path = tmp_path / "lessons.jsonl"
    export_file(path, [Line(1, ONE, ("a",))])
    before = path.read_bytes()
    endless = replace(ONE, metadata={"x": float("inf")})
    with pytest.raises(ConfigurationError):
        export_file(path, [Line(1, TWO, ("b",)), Line(2, endless, ("a",))])
    assert path.read_bytes() == before


def test_files_that_cannot_be_read_or_written_are_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"none\.jsonl can't be read: No such file"):
        import_file(tmp_path / "none.jsonl")
    with pytest.raises(LessonStoreError, match="can't be written; it is as it was"):
        export_file(tmp_path / "no" / "folder.jsonl", [Line(1, ONE, ("a",))])


async def test_bytes_that_are_no_text_are_the_error_of_their_line(tmp_path):
    path = tmp_path / "lessons.jsonl"
    good = to_line(ONE, ["a"]).encode()
    path.write_bytes(b"\xef\xbb\xbf" + good + b"\r\n" + good.replace(b"drawer", b"dr\xffwer") + b"\n")
    with pytest.raises(ConfigurationError, match=r"lessons\.jsonl: 1 of the lines.*line 2: it is not UTF-8"):
        import_file(path)


async def test_many_lessons_go_in_few_writes_and_a_stopped_import_goes_on(lessons, monkeypatch):
    lines = [
        Line(number, replace(ONE, id=f"l{number}", text=f"Open drawer {number} first."), ("Find a pencil",))
        for number in range(250)
    ]
    lines.append(replace(lines[0], lesson=replace(lines[0].lesson, id="equal")))
    writes, add = [], lessons.store.add

    async def counted(chunks, *, records=()):
        if len(writes) == 2:
            raise ConnectionError("the network went away")
        writes.append(len(chunks))
        return await add(chunks, records=records)

    monkeypatch.setattr(lessons.store, "add", counted)
    plan = await plan_import(lessons, lines, approve=("active",))
    with pytest.raises(ConnectionError):
        await make_import(lessons, plan, Change("import"))
    monkeypatch.undo()
    done = await lessons.count()
    assert 0 < done < 250
    plan = await plan_import(lessons, lines, approve=("active",))
    assert (len(plan.same), len(plan.added)) == (done + 1, 250 - done), "an equal one is counted already"
    assert await make_import(lessons, plan, Change("import")) == 0
    assert await lessons.count() == 250
    assert str(await plan_import(lessons, lines)) == "0 added, 251 same, 0 refused"
    copies = await lines_of(lessons)
    assert {each.lesson.id for each in copies} == {line.lesson.id for line in lines[:250]}
