"""``jeeves-reflexion notes`` on real files."""

import json

import anyio
import pytest

from jeeves_reflexion.tasknotes import SqliteReflectionStore, TaskReflection, task_identity

TASKS = ["Research AI trends", "Write a poem"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    path = tmp_path / "notes.sqlite3"
    monkeypatch.setenv("JEEVES_NOTES", str(path))
    return path


@pytest.fixture
def notes(place):
    async def fill():
        store = SqliteReflectionStore(place)
        for task in TASKS:
            for text in ("first", "second"):
                made = TaskReflection.of_first_run(f"{text} of {task}", "A text.", ["Long."], ["Be brief."])
                await store.commit(task_identity(task), made, description=task)
        await store.score(task_identity(TASKS[0]), 0, 0.5)
        await store.score(task_identity(TASKS[0]), 2, 0.75)

    anyio.run(fill)
    return [task_identity(task) for task in TASKS]


def test_list_shows_each_task_separated_by_tabs_in_a_pipe(cli, notes):
    result = cli("notes", "list")
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert [row[0] for row in rows] == [each[:8] for each in notes]
    assert rows[0][2:] == ["version 2", "2 reflections", TASKS[0]]
    answer = json.loads(cli("notes", "list", "--json").stdout)
    assert (answer["count"], answer["notes"][1]["description"]) == (2, TASKS[1])


def test_one_reflection_is_one(cli, place):
    made = TaskReflection.of_first_run("Write a short poem.", "A text.")
    anyio.run(SqliteReflectionStore(place).commit, task_identity(TASKS[1]), made)
    assert cli("notes", "list").stdout.split("\t")[2:4] == ["version 1", "1 reflection"]


def test_show_takes_a_description_or_an_id_cut_short(cli, notes):
    for name in [TASKS[0], task_identity(TASKS[0]), task_identity(TASKS[0])[:6].upper()]:
        result = cli("notes", "show", name)
        assert result.exit_code == 0
        for text in (notes[0], TASKS[0], "second of Research AI trends", "A text.", "Long.", "Be brief."):
            assert text in result.stdout


def test_show_as_json(cli, notes):
    shown = json.loads(cli("notes", "show", TASKS[0], "--json").stdout)["notes"]
    assert (shown["version"], shown["run_count"], shown["reflection"]["suggestions"]) == (2, 2, ["Be brief."])


def test_show_tells_versions_scores_and_what_was_taken_back(cli, notes):
    assert cli("notes", "rollback", TASKS[0]).stdout == "rolled back from version 2 to 1\n"
    result = cli("notes", "show", TASKS[0])
    rows = [line.split("\t") for line in result.stdout.splitlines() if "\t" in line]
    assert [(row[0], row[2], row[3], row[4]) for row in rows] == [
        ("0", "0.50", "1 run", ""),
        ("1", "-", "no runs", "current"),
        ("2", "0.75", "1 run", "taken back"),
    ]
    assert "2 -> 1: by hand" in result.stderr
    found = json.loads(cli("notes", "show", TASKS[0], "--json").stdout)["history"]
    assert [change["kind"] for change in found["changes"]][-1] == "rolled_back_by_hand"


def test_rollback_goes_to_a_version_and_to_none(cli, notes):
    assert json.loads(cli("notes", "rollback", TASKS[0], "--to", "0", "--json").stdout)["new"] == 0
    assert cli("notes", "rollback", TASKS[0], "--to", "0").stdout == "version 0 is the current one already\n"
    assert cli("notes", "rollback", TASKS[0], "--to", "2").exit_code == 0
    refused = cli("notes", "rollback", TASKS[0], "--to", "9")
    assert (refused.exit_code, "no version 9" in refused.stderr) == (5, True)


def test_forget_asks_and_takes_no_for_an_answer(cli, notes):
    refused = cli("notes", "forget", TASKS[0], stdin="n\n")
    assert (refused.exit_code, TASKS[0] in refused.stderr) == (1, True)
    assert cli("notes", "forget", "Another task", "-y").exit_code == 5
    assert cli("notes", "forget", "--json", TASKS[0]).exit_code == 2
    assert len(cli("notes", "list").stdout.splitlines()) == 2
    assert cli("notes", "forget", TASKS[0], stdin="y\n").stdout == f"forgot the notes {notes[0][:8]}\n"
    assert json.loads(cli("notes", "forget", "--json", "-y", TASKS[1]).stdout)["forgotten"] == notes[1]
    assert "there are no task notes" in cli("notes", "list").stderr


def test_where_there_is_no_store_nothing_is_made(cli, place):
    result = cli("notes", "list")
    assert (result.exit_code, place.exists()) == (5, False)
    assert "no file" in result.stderr
    other = cli("notes", "list", "--notes", str(place.parent / "folder"), "--json")
    assert json.loads(other.stdout)["error"]["kind"] == "ReflectionStoreError"


def test_namespaces_are_apart(cli, notes):
    assert cli("notes", "list", "--namespace", "other").stdout == ""


def test_an_identity_of_ones_own_is_found(cli, place):
    made = TaskReflection.of_first_run("by a name of its own", "A text.")
    anyio.run(SqliteReflectionStore(place).store, "nightly/report", made)
    assert "by a name of its own" in cli("notes", "show", "nightly/report").stdout


def test_what_is_not_found_is_said(cli, notes):
    for name in ("abc", "beef", "No such task", " "):
        assert cli("notes", "show", name).exit_code == 5


def test_text_of_a_model_moves_no_cursor(cli, place):
    made = TaskReflection.of_first_run("a\x1b[2Jb\rc", "A text.")
    anyio.run(SqliteReflectionStore(place).store, task_identity("x"), made)
    shown = cli("notes", "show", "x").stdout + cli("notes", "list").stdout
    assert "\x1b" not in shown
    assert "\r" not in shown
