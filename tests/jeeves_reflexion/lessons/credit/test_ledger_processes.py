"""The ledger of several processes at once, and of a database that shows records late."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import anyio
import pytest
from ledger_parts import DRAWN, figures, recall, verdicts

from jeeves_reflexion import Evaluation
from jeeves_reflexion.lessons.credit import tally
from jeeves_reflexion.lessons.credit.ledger import Ledger
from jeeves_reflexion.lessons.credit.verdicts import OUTCOMES, Verdict, counting_of, entry_of
from vectorstores import FaissVectorStore, HashingEmbedder

PROCESSES, RECALLS = 4, 20
ROOT = Path(__file__).parents[4]

# Each notes the same recalls and outcomes, as if they had all been handed the same work, and reads in between.
WRITER = """
import json, sys
import anyio
from ledger_parts import DRAWN, figures, recall, verdicts
from jeeves_reflexion import Evaluation
from jeeves_reflexion.lessons.credit.ledger import Ledger
from vectorstores import HashingEmbedder, open_store

async def main(place, who, count):
    async with open_store(place, embedder=HashingEmbedder(), namespace="tests") as store:
        ledger = Ledger(store)
        won = 0
        for n in range(count):
            draw = DRAWN
            await ledger.note_recall(recall(f"r{n}", ["a"], ["b"]), run_id=f"run{n % 3}", attempt=n, draw=draw)
            won += await ledger.note_outcome(f"r{n}", Evaluation(0.5))
            if n % 10 == who:
                await ledger.credits(max_age=0)
                await ledger.note_feedback(f"run{n % 3}", 1.0, by=str(who), attempt=n)
        print(json.dumps({"won": won, "seen": figures(await ledger.credits(max_age=0), "a")}))

anyio.run(main, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
"""


def run_writers(place: str) -> list[dict]:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, place, str(who), str(RECALLS)],
            cwd=Path(__file__).parent,
            env={"PYTHONPATH": f"{ROOT}:{Path(__file__).parent}", "PATH": "/usr/bin:/bin"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for who in range(PROCESSES)
    ]
    try:
        said = [writer.communicate(timeout=120)[0] for writer in writers]
    finally:
        for writer in writers:
            writer.kill()
    assert [writer.returncode for writer in writers] == [0] * PROCESSES
    return [json.loads(each) for each in said]


async def check(store, said: list[dict]) -> None:
    assert sum(each["won"] for each in said) == RECALLS
    ledger = Ledger(store)
    known = await ledger.credits(max_age=0)
    # In every ten recalls, four had feedback of 1.0, each of another process.
    judged = RECALLS // 10 * PROCESSES
    total = judged + 0.5 * (RECALLS - judged)
    assert figures(known, "a") == (RECALLS, total, 0, 0.0)
    assert figures(known, "b") == (0, 0.0, RECALLS, total)
    assert sorted([r.attempt for r in await ledger.run("run0")]) == list(range(0, RECALLS, 3))
    kinds = [[v.kind for v in await verdicts(ledger, f"r{n}")] for n in range(10)]
    assert [each.count("evaluator") for each in kinds] == [1] * 10
    assert [each.count("feedback") for each in kinds] == [1] * PROCESSES + [0] * (10 - PROCESSES)


def test_four_processes_over_one_folder_count_each_outcome_once(tmp_path):
    said = run_writers(str(tmp_path / "store"))

    async def checked() -> None:
        async with FaissVectorStore(
            tmp_path / "store", embedder=HashingEmbedder(), namespace="tests"
        ) as store:
            await check(store, said)

    anyio.run(checked)


def test_four_processes_over_one_database_count_each_outcome_once(postgres_database):
    from vectorstores import PostgresVectorStore

    said = run_writers(postgres_database)

    async def checked() -> None:
        embedder = HashingEmbedder()
        async with PostgresVectorStore(postgres_database, embedder=embedder, namespace="tests") as store:
            await check(store, said)

    anyio.run(checked)


@pytest.mark.parametrize(("settle_seconds", "found"), [(300.0, 7), (0.0, 6)])
def test_a_record_that_is_committed_behind_younger_ones_is_found(
    postgres_database, monkeypatch, settle_seconds, found
):
    """PostgreSQL numbers a record when it is written, and shows it when it is committed.

    Without time to settle it is missed: what the guard is for.
    """
    from vectorstores import PostgresVectorStore

    monkeypatch.setattr(tally, "_PAGE", 2)

    async def story() -> tuple[int, int]:
        embedder = HashingEmbedder()
        async with PostgresVectorStore(postgres_database, embedder=embedder, namespace="tests") as store:
            ledger = Ledger(store, settle_seconds=settle_seconds)
            await note_one(ledger, "first")
            with LateRecord(postgres_database) as commit:
                for n in range(5):
                    await note_one(ledger, f"r{n}")
                before = figures(await ledger.credits(max_age=0), "a")[0]
                commit()
            return before, figures(await ledger.credits(max_age=0), "a")[0]

    assert anyio.run(story) == (6, found)


async def note_one(ledger: Ledger, id: str) -> None:
    await ledger.note_recall(recall(id, ["a"]), draw=DRAWN)
    await ledger.note_outcome(id, Evaluation(1.0))


class LateRecord:
    """Writes a verdict in a transaction that stays open until it is told to commit."""

    def __init__(self, url: str) -> None:
        import psycopg

        parts = urlsplit(url)
        query = {key: value[0] for key, value in parse_qs(parts.query).items()}
        self.connection = psycopg.connect(
            dbname=parts.path.lstrip("/"), user=unquote(parts.username or ""), **query
        )

    def __enter__(self):
        share = {"share": DRAWN.share, "whole_share": DRAWN.whole_share, "whole": False}
        counting = counting_of({"offered": [{"lesson_id": "a"}], "withheld": [], "at": 1.0, "draw": share})
        value = entry_of(Verdict("evaluator", 1.0, counts=1.0), counting)
        (table,) = self.connection.execute(
            "SELECT quote_ident(table_schema) || '.records' FROM information_schema.tables"
            " WHERE table_name = 'records'"
        ).fetchone()
        self.connection.execute(
            f"INSERT INTO {table} (namespace, collection, key, value, version) VALUES ('tests', %s, 'late', %s, 1)",
            (OUTCOMES, json.dumps(value)),
        )
        return self.connection.commit

    def __exit__(self, *_: object) -> None:
        self.connection.close()
