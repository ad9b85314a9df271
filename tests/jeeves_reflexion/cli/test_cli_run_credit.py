"""``jeeves-reflexion run`` where it finds out what its lessons do."""

import json
from pathlib import Path
from typing import Any

import anyio

from jeeves_reflexion import LessonSettings
from jeeves_reflexion.cli.connections import open_or_make
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
    for given in ((), ("--credit",), ("--no-credit",)):
        run("What is the capital of France?", *given)
        why = ("lessons", "why", "What is the capital of France?", "--lessons", place, "--json")
        settings = json.loads(cli(*why, *given).stdout)["settings"]
        assert settings["credit"] is (made[-1] is not None)
        if not given:
            assert made[-1] == LessonSettings().credit


def test_an_experiment_that_can_not_be_is_refused(run):
    for given in [
        ("--withhold", "0.6"),
        ("--withhold", "nan"),
        ("--withhold", "0.1", "--no-credit"),
        ("--withhold", "0.1", "--no-lessons"),
        ("--credit", "--no-lessons"),
        ("--withhold", "0.1", "--withhold-early", "0.6"),
        ("--withhold", "0.1", "--withhold-early", "nan"),
        ("--withhold", "0.1", "--withhold-early", "0.5", "--no-lessons"),
    ]:
        assert run("What?", *given).exit_code == 2


def test_an_early_share_that_would_do_nothing_is_refused_with_the_reason(run):
    for given, said in [
        (("--withhold-early", "0.5"), "goes with --withhold"),
        (("--withhold", "0", "--withhold-early", "0.5"), "goes with --withhold"),
        (("--withhold", "0.2", "--withhold-early", "0.1"), "0.1 is below --withhold 0.2"),
    ]:
        result = run("What?", *given)
        assert result.exit_code == 2
        assert said in result.stderr


def test_what_nothing_is_known_of_is_withheld_by_the_early_share(run, server, place):
    server.answers, server.verdicts = ["France"], ["score: 0.2"]
    task = "What is the capital of France?"
    assert run(task, "--max-attempts", "1").exit_code == 1
    early = ("--withhold", "0.05", "--withhold-early", "0.5")
    for _ in range(3):
        run(task, "--max-attempts", "1", *early)
    recalls = _recalls(place)[1:]
    assert [recall["draw"]["share"] for recall in recalls] == [0.05] * 3
    assert all({each["share"] for each in recall["shares"]} == {0.5} for recall in recalls)

    # Without it all lessons are drawn alike, also in a store that had it.
    run(task, "--max-attempts", "1", "--withhold", "0.05")
    assert "shares" not in _recalls(place)[-1]


def test_an_early_share_that_would_do_nothing_is_refused_before_the_run(cli, tmp_path):
    for given, said in [
        (("--withhold-early", "0.5"), "goes with --withhold"),
        (("--withhold", "0", "--withhold-early", "0.5"), "goes with --withhold"),
        (("--withhold", "0.2", "--withhold-early", "0.1"), "0.1 is below --withhold 0.2"),
        (("--withhold", "0.2", "--withhold-early", "nan"), "it must be a finite number"),
        (("--withhold", "0.2", "--withhold-early", "0.6"), "not in the range"),
    ]:
        tasks = tmp_path / "tasks.jsonl"
        tasks.write_text('{"prompt": "Which city governs France"}\n')
        result = cli("bench", tasks, "--out", tmp_path / "out", *given)
        assert result.exit_code == 2
        assert said in result.stderr
        assert not (tmp_path / "out").exists()
