"""The command line over a lesson store in PostgreSQL; only the place is another."""

import json

import pytest

pytest.importorskip("psycopg")

PAIRS = [
    ("What is the capital of France?", "Name the city, not the country."),
    ("Put a clean mug on the desk.", "Wash the mug in the sink before you carry it."),
]


@pytest.fixture
def place(postgres_database: str) -> str:
    """A schema of a fresh database; the default place of these tests."""
    return f"{postgres_database}&schema=lessons"


def test_a_run_makes_the_store_and_the_next_recalls_from_it(run, cli, server, place):
    server.answers, server.verdicts = ["Lyon", "Paris"], ["score: 0.0", "score: 1.0"]
    assert run("What is the capital of France?", "--lessons", place).exit_code == 0
    assert cli.count("--lessons", place) == 1
    run("Name the capital of France.")
    assert "Name the capital, not the country." in json.dumps(server.asked[-2])


def test_lessons_are_found_shown_and_forgotten(cli, fill, place):
    ids = fill(PAIRS)
    found = json.loads(cli("lessons", "search", "carry a clean mug", "--top-k", "1", "--json").stdout)[
        "lessons"
    ]
    assert found[0]["lesson"]["id"] == ids[1]
    assert PAIRS[0][1] in cli("lessons", "show", ids[0][:8], "--lessons", place).stdout
    assert cli("lessons", "forget", ids[0], "--yes").exit_code == 0
    assert cli.count() == 1


def test_lessons_move_to_another_embedder(cli, fill, place):
    fill(PAIRS, dim=64)
    result = cli("lessons", "reembed", "--lessons", place, "--embedder", "hashing")
    assert result.exit_code == 0
    assert "all" in result.stdout
    assert cli("lessons", "search", "mug").exit_code == 0
    assert cli.count() == 2


def test_no_store_and_no_server_are_said_without_the_password(cli, place):
    missing = cli("lessons", "list", "--lessons", place.replace("schema=lessons", "schema=other"))
    assert missing.exit_code != 0
    assert "no lesson store at" in missing.stderr
    away = cli("lessons", "list", "--lessons", "postgresql://me:sesame7531@no-such-host.invalid/db")
    assert away.exit_code != 0
    assert "can't be reached" in away.stderr
    assert "sesame7531" not in missing.output + away.output
