"""``jeeves-reflexion run`` where it finds out what its lessons do."""

import json
from pathlib import Path
from typing import Any

import anyio

from jeeves_reflexion import LessonSettings
from jeeves_reflexion.cli.stores import open_or_make
from jeeves_reflexion.lessons.credit.verdicts import RECALLS
from vectorstores import FaissVectorStore, HashingEmbedder


def _recalls(place: Path) -> list[dict[str, Any]]:
    """What was noted of each recall of a place, oldest first."""

    async def read() -> list[dict[str, Any]]:
        async with FaissVectorStore(place, embedder=HashingEmbedder(), namespace="default") as store:
            return [record.value for record in (await store.scan_records(RECALLS)).records]

    return anyio.run(read)


def test_recall_is_an_experiment_where_a_share_is_withheld(run, cli, server, place):
    server.answers, server.verdicts = ["France"], ["score: 0.2"]
    task = "What is the capital of France?"
    assert run(task, "--max-attempts", "1").exit_code == 1
    assert run(task, "--max-attempts", "1", "--credit").exit_code == 1
    told = json.loads(run(task, "--max-attempts", "1", "--withhold", "0.5", "--json").stdout)
    assert [recall["draw"]["share"] for recall in _recalls(place)] == [0.0, 0.0, 0.5]
    recall = told["trials"][0]["recall"]
    for item in recall["withheld"]:
        assert item["reason"].startswith("withheld by the draw")
    assert len(recall["offered"]) + len(recall["withheld"]) == 1

    # A late word counts, and is in the numbers.
    assert cli("lessons", "outcome", told["run_id"], "1.0", "--lessons", place).exit_code == 0
    stats = json.loads(cli("lessons", "stats", "--lessons", place, "--json").stdout)
    assert stats["recalls"] == 3
    assert stats["library_lift"]["value"] is None


def test_run_and_why_recall_alike_unless_they_are_told_otherwise(run, cli, server, place, monkeypatch):
    made = []

    def opened(*given, **named):
        made.append(given[3].credit)
        return open_or_make(*given, **named)

    monkeypatch.setattr("jeeves_reflexion.cli.run.open_or_make", opened)
    for given in ((), ("--credit",)):
        run("What is the capital of France?", *given)
        why = ("lessons", "why", "What is the capital of France?", "--lessons", place, "--json")
        assert json.loads(cli(*why, *given).stdout)["credit"] is (made[-1] is not None)
        if not given:
            assert made[-1] == LessonSettings().credit


def test_an_experiment_that_can_not_be_is_refused(run):
    for given in [
        ("--withhold", "0.6"),
        ("--withhold", "nan"),
        ("--withhold", "0.1", "--no-lessons"),
        ("--credit", "--no-lessons"),
        ("--check", "--no-lessons"),
    ]:
        assert run("What?", *given).exit_code == 2


def test_a_lesson_that_would_change_nothing_is_written_once_more(run, server):
    no, yes = '{"changes": false, "why": "it names nothing"}', '{"changes": true, "why": ""}'
    server.answers, server.verdicts = ["France", no, yes], ["score: 0.2"]
    server.lessons = ["Be more careful.", "Name the capital, not the country."]
    done = run("What is the capital of France?", "--max-attempts", "1", "--check", "--json")
    assert json.loads(done.stdout)["trials"][0]["lesson"]["text"] == "Name the capital, not the country."
    assert "turned down, it would not change an attempt: Be more careful. (it names nothing)" in done.stderr
