"""``jeeves-reflexion lessons``: stats, why and consolidate, on stores in folders that were used."""

import json
import re
import shutil
import time
from dataclasses import replace

import anyio
import pytest

from jeeves_reflexion import Evaluation, LessonSettings, Provenance, Reflection, Task, open_lessons
from jeeves_reflexion.lessons.credit.effects import Withholding
from jeeves_reflexion.lessons.settings import Credit
from vectorstores import HashingEmbedder

CLEAN = Task("put a clean mug in the coffee machine", kind="clean", tools=("look",))
HEAT = Task("put a hot potato on the side table", kind="heat")
SINK = "Wash the mug in the sink before you carry it anywhere."
OVEN = "Heat the potato in the microwave, not in the oven."
DAY = 86_400.0
RECALLS = 200


@pytest.fixture(scope="module")
def used_once(tmp_path_factory):
    """A store with a lesson that helps, one that harms, and an old one, and their ids."""
    place = tmp_path_factory.mktemp("used") / "lessons"

    async def use():
        credit = Credit(Withholding(0.4, seed=3, whole_share=0.2), retire=False, max_age=0.0)
        settings = LessonSettings(keep_copies=True, credit=credit)
        async with open_lessons(
            place, namespace="default", embedder=HashingEmbedder(256), settings=settings
        ) as lessons:
            ids = []
            for task, text, days in (
                (CLEAN, SINK, 2),
                (
                    replace(CLEAN, prompt=f"{CLEAN.prompt} Do it soon."),
                    "Carry the mug straight to the machine, without a look at the sink.",
                    2,
                ),
                (HEAT, OVEN, 400),
            ):
                source = Provenance("run", 1, 0.0, created_at=time.time() - days * DAY)
                ids.append((await lessons.record(task, Reflection(text), provenance=source)).id)
            good, bad, _ = ids
            # So many that no draw leaves it open which of the two helps.
            for n in range(RECALLS):
                recall = await lessons.recall(CLEAN, k=3, run_id=f"run-{n}", attempt=1)
                had = {item.lesson.id for item in recall.offered}
                score = 0.5 + 0.5 * (good in had) - 0.5 * (bad in had)
                if n < RECALLS - 2:
                    await lessons.outcome(recall.id, Evaluation(score))
        return ids

    return place, anyio.run(use)


@pytest.fixture
def used(place, used_once):
    """That store, to be changed by one test; its ids."""
    made, ids = used_once
    shutil.copytree(made, place)
    return ids


def test_stats_of_a_used_library(cli, used):
    good, bad, old = used
    answer = json.loads(cli("lessons", "stats", "--json").stdout)
    assert answer["by_kind"] == {"clean": 2, "heat": 1}
    assert answer["by_state"] == {"active": 3}
    assert (answer["recalls"], answer["scored_attempts"]) == (RECALLS, RECALLS - 2)
    assert answer["lessons_offered"] + answer["lessons_withheld"] == 2 * RECALLS
    assert 0.1 < answer["share_withheld"] < 0.7
    (best,), (worst,) = answer["helps_most"], answer["helps_least"]
    assert (best["lesson"]["id"], worst["lesson"]["id"]) == (good, bad)
    assert 0.0 < best["lift"]["low"] < best["lift"]["value"] < best["lift"]["high"]
    assert worst["lift"]["high"] < 0.0
    assert best["lift"]["n_with"] + best["lift"]["n_without"] <= RECALLS - 2
    assert answer["library_lift"]["n_without"] > 0
    assert (answer["stale"], answer["stalest"][0]["lesson"]["id"]) == (1, old)

    result = cli("lessons", "stats")
    rows = {line.split("\t")[1]: line.split("\t") for line in result.stdout.splitlines() if "\t" in line}
    assert rows["helps most"][0] == good[:8]
    assert rows["helps most"][3].startswith("+")
    assert rows["helps least"][0] == bad[:8]
    assert rows["stale"][3] == "never recalled in 400 days"
    assert re.search(f"scored attempts +{RECALLS - 2}\n", result.stdout)


def test_policy_estimates_what_was_tried_by_chance_and_refuses_the_rest(cli, used):
    # The nearer lesson is the good one; the other cost half a point where it was offered.
    answer = json.loads(cli("lessons", "policy", "--k", "1", "--json").stdout)
    # 0.5 * 0.6 * 0.8, by draws that differ from run to run; bounds at some five standard errors.
    assert 0.0 < answer["gain"]["low"] < answer["gain"]["value"] < 0.45
    assert (answer["recalls"], answer["observed"] + answer["gain"]["value"]) == (RECALLS - 2, answer["value"])
    assert " as logged: +0.0 points (+0.0 to +0.0)" in cli("lessons", "policy").stdout
    assert "in the namespace nobody" in cli("lessons", "policy", "default", "nobody").stderr
    refused = cli("lessons", "policy", "--k", "3")
    assert (refused.exit_code, "never tried" in refused.stderr) == (5, True)


def test_stats_without_data_say_so(cli, fill):
    fill([("What is the capital of France?", "Name the city, not the country.")])
    result = cli("lessons", "stats")
    assert "not enough data (0 with, 0 without)" in result.stdout
    assert json.loads(cli("lessons", "stats", "--json").stdout)["library_lift"]["value"] is None
    assert cli("lessons", "stats", "--namespace", "empty").exit_code == 0


def test_show_tells_the_lift(cli, used):
    good, _, old = used
    shown = json.loads(cli("lessons", "show", good, "--json").stdout)
    assert shown["lift"]["value"] > 0
    assert "not enough data (0 with, 0 without)" in cli("lessons", "show", old).stdout


def test_why_names_what_is_in_and_out_and_notes_nothing(cli, used):
    good, bad, old = used
    before = cli("lessons", "stats", "--json").stdout
    cli("lessons", "retire", old, "--reason", "no oven here")
    answer = json.loads(cli("lessons", "why", HEAT.prompt, "--kind", "heat", "--json").stdout)
    (retired, *_) = [each for each in answer["left_out"] if each["lesson"]["id"] == old]
    assert retired["reason"] == "retired: no oven here"
    assert answer["task"]["kind"] == "heat"

    result = cli("lessons", "why", CLEAN.prompt, "--top-k", "1", "--credit")
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert rows[0][:2] == [good[:8], "in"]
    assert "worth +" in rows[0][4]
    assert bad[:8] in {row[0] for row in rows if row[1] == "out"}
    after = json.loads(cli("lessons", "stats", "--json").stdout)
    assert (after["recalls"], after["by_state"]) == (RECALLS, {"active": 2, "retired": 1})
    assert json.loads(before)["recalls"] == RECALLS


def test_why_without_credit_and_below_the_floor(cli, used):
    good, bad, _ = used
    plain = cli("lessons", "why", CLEAN.prompt, "--top-k", "2")
    rows = [line.split("\t") for line in plain.stdout.splitlines()]
    assert {row[0] for row in rows if row[1] == "in"} == {good[:8], bad[:8]}
    assert all(row[3] == "-" for row in rows)
    none = cli("lessons", "why", "Entirely other words", "--tool", "hammer")
    assert "nothing would be recalled" in none.stderr
    assert {line.split("\t")[4] for line in none.stdout.splitlines()} == {"below the floor of 0.30"}
    assert cli("lessons", "why", " ").exit_code == 2


def test_consolidate_by_rules_is_shown_asked_and_made(cli, used):
    good, bad, old = used
    dry = cli("lessons", "consolidate", "--dry-run")
    rows = {line.split("\t")[0]: line.split("\t") for line in dry.stdout.splitlines()}
    assert rows[bad[:8]][1:3] == ["retire", "active -> retired"]
    assert not {good[:8], old[:8]} & rows.keys()
    assert cli("lessons", "consolidate", stdin="n\n").exit_code == 1
    assert json.loads(cli("lessons", "stats", "--json").stdout)["by_state"] == {"active": 3}
    done = json.loads(cli("lessons", "consolidate", "--yes", "--json").stdout)
    assert (done["dry_run"], done["done"], done["skipped"]) == (False, 1, [])
    assert "retired" in cli("lessons", "show", bad).stdout
    assert cli("lessons", "rollback", bad).exit_code == 0


@pytest.fixture
def alike(place):
    """Store lessons on one task, without a look at whether they say the same."""

    def store(*texts):
        async def record():
            settings = LessonSettings(keep_copies=True)
            async with open_lessons(
                place, namespace="default", embedder=HashingEmbedder(64), settings=settings
            ) as lessons:
                for n, text in enumerate(texts):
                    await lessons.record(CLEAN, Reflection(text), provenance=Provenance(f"run-{n}", 1, 0.0))

        anyio.run(record)

    return store


def test_consolidate_merges_copies_and_then_finds_nothing(cli, alike):
    alike(SINK, SINK, SINK)
    assert cli("lessons", "consolidate", "--yes").stdout.endswith("made 1 operation\n")
    answer = json.loads(cli("lessons", "stats", "--json").stdout)
    assert answer["by_state"] == {"active": 1, "retired": 2}
    assert answer["by_support"]["3"] == 1
    assert "nothing to consolidate" in cli("lessons", "consolidate").stderr


def test_consolidate_with_a_model(cli, alike, server, dead_url):
    alike(SINK, SINK.replace("anywhere", "somewhere"))
    merge = {"op": "merge", "ids": ["L1", "L2"], "reason": "same"}
    server.answers = [json.dumps({"operations": [merge, {"op": "dance", "ids": ["L1"]}]})]
    given = ("--model", "tiny", "--base-url", server.url)
    dry = cli("lessons", "consolidate", *given, "--dry-run")
    assert "merged into" in dry.stdout
    assert "refused" in dry.stderr
    away = cli("lessons", "consolidate", "--model", "tiny", "--base-url", dead_url, "--yes")
    assert away.exit_code == 4
    assert cli("lessons", "consolidate", "--base-url", server.url).exit_code == 2
    assert cli("lessons", "consolidate", *given, "--yes").stdout.endswith("made 1 operation\n")
    assert json.loads(cli("lessons", "stats", "--json").stdout)["by_state"] == {"active": 1, "retired": 1}
