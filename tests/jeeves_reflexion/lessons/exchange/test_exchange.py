"""Lessons as JSON lines: nothing is lost, nothing else is taken for one, and an import is seen before it is done."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons.exchange.files import (
    as_imported,
    export_file,
    from_line,
    import_file,
    plan_import,
    read_lines,
    to_line,
    undone,
)
from jeeves_reflexion.lessons.history import Entry
from jeeves_reflexion.types import Lesson, Provenance

pytestmark = pytest.mark.anyio

ONE = Lesson(
    "one", "Open the drawer first.", "t1", "Find a pencil", Provenance("r1", 2, 0.5, "m", "ann", 12.5)
)
TWO = Lesson("two", "Close the file.", "t2", "Copy", Provenance("r2", 0, None), trust="shared", support=7)

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
lessons = st.builds(
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
@given(lessons, st.lists(plain, min_size=1, max_size=3))
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
        ("{", "no JSON"),
        ("[1]", "no JSON object"),
        ("[" * 100_000, "no JSON"),
        ('{"format": NaN}', "NaN is no JSON number"),
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
        (" " * 1_000_001, "characters long"),
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


def test_one_bad_line_stops_everything_unless_it_may_be_passed_over():
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
    read = read_lines(lines, skip_bad=True)
    assert [(one.number, one.lesson.id) for one in read.lessons] == [(1, "one"), (4, "two")]
    assert [bad.number for bad in read.bad] == [3, 5]


def test_the_same_line_twice_is_one_lesson():
    assert len(read_lines([to_line(ONE, ["a"])] * 2).lessons) == 1


def test_a_second_import_changes_nothing_whatever_the_store_made_of_the_first():
    read = read_lines([to_line(ONE, ["a"]), to_line(TWO, ["b"])])
    first = plan_import(read, {})
    assert str(first) == "2 added, 0 same, 0 changed, 0 refused, 0 bad"
    assert [line.lesson.trust for line in first.changes] == ["imported"] * 2
    assert [line.lesson.support for line in first.changes] == [1, 1]
    stored = {line.lesson.id: line.lesson for line in first.changes}
    stored["two"] = replace(
        stored["two"], support=4, state="retired", state_reason="harms", metadata={"copies": []}
    )
    second = plan_import(read, stored)
    assert (second.changes, len(second.same)) == ((), 2)


def test_another_wording_changes_an_imported_lesson_and_never_one_of_our_own():
    read = read_lines([to_line(replace(ONE, text="Shut the drawer."), ["a"])])
    held = replace(as_imported(ONE), state="retired", state_reason="harms", support=3)
    (line,) = plan_import(read, {"one": held}).changed
    assert (line.lesson.text, line.lesson.state, line.lesson.support) == ("Shut the drawer.", "retired", 3)
    (line,) = plan_import(read, {"one": ONE}).refused
    assert line.reason == "a lesson with its id is own and says otherwise"


def test_a_check_refuses_with_its_reason_and_sees_what_is_new_alone():
    seen = []

    def check(lesson):
        seen.append(lesson.id)
        return "it gives orders" if lesson.id == "two" else None

    read = read_lines([to_line(ONE, ["a"]), to_line(TWO, ["b"])])
    report = plan_import(read, {"one": as_imported(ONE)}, check=check)
    assert seen == ["two"]
    assert [(line.lesson.id, line.reason) for line in report.refused] == [("two", "it gives orders")]


def test_a_backup_goes_back_to_an_older_state_by_force_alone():
    read = read_lines([to_line(ONE, ["a"]), to_line(TWO, ["b"])])
    now = {"one": replace(ONE, state="retired", state_reason="harms"), "two": TWO}
    (line,) = plan_import(
        read, now, restore=True
    ).changed  # a state that the store never was in is no older one
    assert line.lesson == ONE
    older = {"one": "retire of 2026-03-01 by ann (harms)"}
    report = plan_import(read, now, restore=True, older=older)
    assert (report.changes, [line.lesson.id for line in report.same]) == ((), ["two"])
    (line,) = report.refused
    assert "newer state" in line.reason
    assert "retire of 2026-03-01 by ann (harms)" in line.reason
    (line,) = plan_import(read, now, restore=True, older=older, force=True).changed
    assert (line.lesson, line.undoes) == (ONE, older["one"])


def entries(*states):
    """The history of a lesson that was in these states one after the other."""
    at = 1772366400.0
    befores = (None, *states[:-1])
    return [
        Entry(n, at, operation, "ann", f"why {n}", before, after)
        for n, (operation, before, after) in enumerate(
            zip(("learn", "retire", "edit", "rollback"), befores, states, strict=False), 1
        )
    ]


def test_what_a_backup_undoes_is_what_came_after_its_state():
    retired = replace(ONE, state="retired", state_reason="harms")
    edited = replace(retired, text="Shut the drawer.")
    assert undone(ONE, entries(ONE)) == ""
    assert undone(ONE, []) == ""
    assert undone(TWO, entries(ONE, retired)) == ""
    assert undone(ONE, entries(ONE, retired)) == "retire of 2026-03-01 by ann (why 2)"
    assert undone(retired, entries(ONE, retired, edited)) == "edit of 2026-03-01 by ann (why 3)"
    assert undone(retired, entries(ONE, retired, edited, retired)) == ""
    assert undone(edited, entries(ONE, retired, edited, retired)) == "rollback of 2026-03-01 by ann (why 4)"
    # A lesson of the first format has no entry for its beginning.
    assert undone(ONE, entries(ONE, retired)[1:]) == "retire of 2026-03-01 by ann (why 2)"
    many = [retired, edited] * 4
    history = [Entry(n, 0.0, "edit", "", "", None, each) for n, each in enumerate((ONE, *many), 1)]
    assert undone(ONE, history).endswith(" and 5 more")


def test_a_backup_may_hold_words_that_were_struck_from_the_history_since():
    struck = Entry(3, 0.0, "forget", "", "a lesson that it knew of was forgotten", ONE, ONE)
    merged = replace(ONE, metadata={"wordings": ["Words of the forgotten one."]})
    history = [*entries(ONE, replace(ONE, support=2)), struck]
    assert undone(merged, history) == "forget of 1970-01-01 (a lesson that it knew of was forgotten)"


@pytest.mark.parametrize("restore", [False, True])
def test_what_was_forgotten_comes_back_by_force_alone(restore):
    read = read_lines([to_line(ONE, ["a"]), to_line(TWO, ["b"])])
    report = plan_import(read, {}, restore=restore, forgotten={"one"}, force=not restore)
    assert [line.lesson.id for line in report.added] == ["two"]
    (line,) = report.refused
    assert (line.forgotten, "it was forgotten here" in line.reason) == (True, True)
    (line, other) = plan_import(read, {}, restore=True, forgotten={"one"}, force=True).added
    assert (line.lesson, line.undoes, other.undoes) == (ONE, "its forgetting", "")
    # One that was put there again since is forgotten no more.
    assert plan_import(read, {"one": ONE}, restore=True, forgotten={"one"}).same[0].lesson == ONE


def test_ones_own_backup_comes_back_as_it_was():
    read = read_lines([to_line(TWO, ["b"])])
    (line,) = plan_import(read, {}, restore=True).added
    assert line.lesson == TWO


async def test_a_file_comes_back_and_is_replaced_whole(tmp_path):
    path = tmp_path / "lessons.jsonl"
    assert await export_file(path, [(TWO, ["b"]), (ONE, ["a\u2028\r\n\ud800"])]) == 2
    assert await export_file(path, [(ONE, ["a\u2028\r\n\ud800"])]) == 1
    (line,) = import_file(path).lessons
    assert (line.lesson, line.tasks) == (ONE, ("a\u2028\r\n\ud800",))
    assert list(tmp_path.iterdir()) == [path]


async def test_nothing_is_written_when_one_lesson_cannot_be(tmp_path):
    path = tmp_path / "lessons.jsonl"
    await export_file(path, [(ONE, "a")])
    before = path.read_bytes()
    with pytest.raises(ConfigurationError):
        await export_file(path, [(TWO, "b"), (replace(ONE, metadata={"x": float("inf")}), "a")])
    assert path.read_bytes() == before


async def test_files_that_cannot_be_read_or_written_are_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"none\.jsonl can't be read"):
        import_file(tmp_path / "none.jsonl")
    with pytest.raises(LessonStoreError, match="can't be written; it is as it was"):
        await export_file(tmp_path / "no" / "folder.jsonl", [(ONE, "a")])


@pytest.mark.parametrize("name", ["long.jsonl", "/dev/zero"])
def test_what_has_no_lines_is_not_read_without_end(tmp_path, name):
    path = tmp_path / name
    if name == "long.jsonl":
        path.write_text(to_line(ONE, ["a"]) + "\n" + "x" * 10_000_001)
    elif not path.exists():
        pytest.skip("a device of POSIX")
    with pytest.raises(ConfigurationError, match="a line has more than 10,000,000 characters"):
        import_file(path, skip_bad=True)


async def test_bytes_that_are_no_text_are_the_error_of_their_line(tmp_path):
    path = tmp_path / "lessons.jsonl"
    good = to_line(ONE, ["a"]).encode()
    path.write_bytes(b"\xef\xbb\xbf" + good + b"\r\n" + good.replace(b"drawer", b"dr\xffwer") + b"\n")
    with pytest.raises(ConfigurationError, match=r"lessons\.jsonl: 1 of the lines.*line 2: it is no UTF-8"):
        import_file(path)
    assert len(import_file(path, skip_bad=True).lessons) == 1
