"""What the framework's own work costs: every part is measured, and its page and figures agree."""

import json

import pytest
from click.testing import CliRunner

from benchmarks import costs, timing, tries

PARTS = ("attempt", "lessons")
TINY = ["--repetitions", "2", "--calls", "2", "--lessons", "20", "--scored", "10"]


@pytest.mark.usefixtures("cheap_collections")
@pytest.mark.parametrize("part", PARTS)
def test_a_part_writes_its_page_and_its_figures(part, tmp_path):
    done = CliRunner().invoke(
        costs.main, ["--part", part, *TINY, "--out", str(tmp_path)], catch_exceptions=False
    )
    assert done.exit_code == 0
    found = json.loads((tmp_path / "costs.json").read_text())["costs"]
    page = (tmp_path / "costs.md").read_text()
    assert {each["part"] for each in found} == {part}
    for each in found:
        assert len(each["taken"]["each"]) == len(each["held"]["each"]) == 2
        assert f"| {part} | {each['ours']} | " in page


def test_an_experiment_is_measured_by_trial_and_arm():
    done = CliRunner().invoke(tries.main, ["--tasks", "3"], catch_exceptions=False)
    assert done.exit_code == 0
    rows = [
        line.split(" | ") for line in done.output.splitlines() if line.startswith(("| own", "| selective"))
    ]
    assert [int(each[2]) for each in rows] == [3, 6, 9, 12, 15, 18]


def test_the_memory_of_a_process_is_counted_in_bytes_whatever_its_pages(monkeypatch):
    status = "Name: x\nRssAnon:\t 2048 kB\nRssFile:\t 1024 kB\nRssShmem:\t 512 kB\n"
    monkeypatch.setattr(timing.Path, "read_text", lambda *_, **__: status)
    assert timing.resident_memory() == {"private": 2 * 2**20, "file": 1536 * 1024}
