"""What people do to lessons, over a store in PostgreSQL; only the place is another."""

import json

import pytest

pytest.importorskip("psycopg")

PAIRS = [
    ("What is the capital of France?", "Name the city, not the country."),
    ("Sort a list of numbers in Python.", "Use sorted() with a key instead of a loop."),
    ("Put a clean mug on the desk.", "Wash the mug in the sink before you carry it."),
]


@pytest.fixture
def place(postgres_database: str) -> str:
    """A schema of a fresh database; the default place of these tests."""
    return f"{postgres_database}&schema=lessons"


def test_lessons_are_changed_taken_back_and_explained(cli, fill):
    ids = fill(PAIRS)
    assert cli("lessons", "retire", ids[0][:8], "--reason", "old").exit_code == 0
    assert cli("lessons", "edit", ids[1], "Call sorted() with a key.").exit_code == 0
    assert cli("lessons", "merge", ids[1], ids[2], "--yes").exit_code == 0
    stats = json.loads(cli("lessons", "stats", "--json").stdout)
    assert stats["by_state"] == {"retired": 2, "active": 1}
    left = json.loads(cli("lessons", "why", PAIRS[0][0], "--json").stdout)["left_out"]
    assert "retired: old" in {each["reason"] for each in left}
    assert cli("lessons", "rollback", ids[0]).exit_code == 0
    assert cli("lessons", "rollback", ids[1], "--to", "1").exit_code == 0
    assert json.loads(cli("lessons", "show", ids[1], "--json").stdout)["lesson"]["text"] == PAIRS[1][1]
    assert cli("lessons", "show", ids[1]).exit_code == 0


def test_lessons_move_from_a_server_to_a_folder_and_back(cli, fill, tmp_path, place):
    ids = fill(PAIRS)
    file, folder = tmp_path / "lessons.jsonl", tmp_path / "folder"
    assert cli("lessons", "export", file).exit_code == 0
    given = ("--approve", "--create", "--yes", "--embedder", "hashing")
    assert cli("lessons", "import", file, "--lessons", folder, *given).exit_code == 0
    assert cli("lessons", "forget", *ids, "--yes").exit_code == 0
    assert cli("lessons", "export", file, "--lessons", folder, "--overwrite").exit_code == 0
    assert cli("lessons", "import", file, "--lessons", place, *given).exit_code == 1
    assert cli.count() == 0, "what was forgotten stays so"
    assert cli("lessons", "import", file, "--namespace", "other", *given).exit_code == 0
    back = json.loads(cli("lessons", "list", "--namespace", "other", "--json").stdout)["lessons"]
    assert [each["id"] for each in back] == ids[::-1]


def test_a_late_outcome_and_what_it_adds_up_to(cli, run, server):
    server.answers, server.verdicts = ["Lyon", "Paris"], ["score: 0.0", "score: 1.0"]
    run_id = json.loads(run("What is the capital of France?", "--json").stdout)["run_id"]
    noted = json.loads(cli("lessons", "outcome", run_id, "0.25", "--json").stdout)
    assert noted["feedback"]["before"] == 1.0
    assert json.loads(cli("lessons", "stats", "--json").stdout)["later_scores"] == 1
    assert "nothing to consolidate" in cli("lessons", "consolidate").stderr


def test_a_folder_and_a_server_hand_each_other_what_the_other_has_not(cli, fill, tmp_path, place):
    theirs, folder = fill(PAIRS[:1])[0], tmp_path / "folder"
    task, text = PAIRS[1]
    own = ("--lessons", folder, "--json")
    added = cli("lessons", "add", text, "--task", task, "--create", "--embedder", "hashing", *own)
    mine = json.loads(added.stdout)["lesson"]["id"]

    dry = json.loads(cli("lessons", "sync", place, "--dry-run", *own).stdout)
    there, here = (value for value in dry.values() if isinstance(value, dict))
    assert (dry["dry_run"], there["added"], here["added"]) == (True, [mine], [theirs])
    assert len(json.loads(cli("lessons", "list", "--json").stdout)["lessons"]) == 1, (
        "a dry run writes nothing"
    )

    assert cli("lessons", "sync", place, "--lessons", folder, stdin="y\n").stdout.endswith(
        "carried 2 lessons; new ones wait for review\n"
    )
    for lesson_id, side in ((mine, place), (theirs, folder)):
        lesson = json.loads(cli("lessons", "show", lesson_id, "--lessons", side, "--json").stdout)["lesson"]
        assert (lesson["state"], lesson["trust"]) == ("proposed", "imported")
    assert "nothing to carry" in cli("lessons", "sync", place, "--lessons", folder).stdout

    assert cli("lessons", "edit", mine, "Call sorted() with a key.", "--lessons", folder).exit_code == 0
    pushed = json.loads(cli("lessons", "push", place, "--yes", "--lessons", folder, "--json").stdout)
    assert next(value for value in pushed.values() if isinstance(value, dict))["refused"] == [
        {"id": mine, "reason": "a lesson with its id is imported and has other content"}
    ]
    assert text in cli("lessons", "show", mine).stdout
    assert "nothing to carry" in cli("lessons", "pull", place, "--lessons", folder).stdout
    assert cli("lessons", "pull", folder, "--lessons", folder).exit_code == 2
    assert cli("lessons", "push", tmp_path / "none", "--lessons", folder).exit_code == 3
