"""Where files lie, what they are called, and what becomes of them: X14 to X18, and folders that people edit."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial as bound
from pathlib import Path

import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocol_parts import at, decision, entry, failed, partial, record, source, success

from jeeves_reflexion import ConfigurationError, LessonStoreError, Task
from jeeves_reflexion.reflections import journal as files
from jeeves_reflexion.reflections.forms import make_reflection
from jeeves_reflexion.reflections.journal import DEFAULT_FOLDER, ReflectionJournal
from jeeves_reflexion.reflections.markdown import agent_slug, from_markdown, slug, title_slug

pytestmark = pytest.mark.anyio
HERE = Path(__file__).parent


@pytest.fixture
def journal(tmp_path) -> ReflectionJournal:
    return ReflectionJournal(tmp_path / "reflections")


def write(
    journal, title="Fetch the listings", *, agent="researcher-agent", when=None, reflection=None, **more
):
    task = Task(title, kind="web scraping")
    told = reflection or failed(tactical_rule=f"{title}.")
    return record(journal, task, told, provenance=source(agent, when, **more))


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.md"))


def test_x14_the_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stored = write(ReflectionJournal(), "API timeout handling")
    expected = Path("memory/reflections/researcher-agent/2026-03-01-api-timeout-handling.md")
    assert stored.path == expected
    assert Path("memory/reflections") == DEFAULT_FOLDER
    assert from_markdown((tmp_path / expected).read_text("utf-8")) == stored.entry


def test_x14_the_date_is_that_of_utc(journal):
    for hour in (0, 23):
        assert (write(journal, when=at(1, hour=hour))).path.name.startswith("2026-03-01")


TITLES = [
    ("API timeout handling", "api-timeout-handling"),
    ("One two three four five six seven", "one-two-three-four-five"),
    ("Élan vital: naïve café!", "elan-vital-naive-cafe"),
    ("../../etc/passwd", "etc-passwd"),
    ("..", "untitled"),
    ("C:\\Windows\\system32", "c-windows-system32"),
    ("a/b\0c", "a-b-c"),
    ("東京 の 天気", "東京-の-天気"),
    ("don't stop", "dont-stop"),
    ("  --- !!! ---  ", "untitled"),
    ("", "untitled"),
    ("\U0001f600\u202e", "untitled"),
    ("snake_case_name", "snake-case-name"),
    ("CON", "con"),  # the date before it makes it harmless
    ("Straße", "strasse"),
]


def test_x15_titles_become_names():
    for title, name in TITLES:
        assert title_slug(title) == name


AGENTS = [
    ("Researcher Agent", "researcher-agent"),
    ("../other", "other"),
    ("con", "con-agent"),
    ("archive", "archive-agent"),
    ("", "agent"),
    ("...", "agent"),
    (".hidden", "hidden"),
]


def test_x15_agents_become_folders():
    for agent, name in AGENTS:
        assert agent_slug(agent) == name


@given(st.text())
def test_x15_no_title_leaves_the_folder(title):
    name = title_slug(title)
    assert len(name.split("-")) <= 6  # five words, and a digest where they were too long
    assert len(name.encode()) <= 80
    assert name == name.lower() or slug(name) == name
    assert not set(name) & set('/\\.:*?"<>|\0 \n')
    assert slug(name) == name


@given(st.text(), st.text())
def test_x15_agents_that_are_cut_stay_apart(one, other):
    long = "x" * 100
    if slug(one) != slug(other):
        assert agent_slug(f"{long} {one}") != agent_slug(f"{long} {other}")


def test_a_time_in_milliseconds_is_an_error_that_says_so(journal):
    with pytest.raises(ConfigurationError, match="seconds since 1970"):
        record(journal, Task("x"), failed(), provenance=source("a", 1.7e12))


def test_x14_the_short_title_is_the_reflections_own_and_not_its_tasks(journal):
    prompt = "You are a careful agent. Answer the question below. Question {}: who won?"
    rules = ("Always look at the date first.", "Never guess a name.", "Сначала проверь дату.")
    for number, rule in enumerate(rules):
        told = failed(tactical_rule=rule)
        record(journal, Task(prompt.format(number)), told, provenance=source("a", at(1) + number))
    record(journal, Task(prompt), partial(), provenance=source("a"))
    record(journal, Task(prompt), success(), provenance=source("a"))
    record(journal, Task(prompt), decision(), provenance=source("a"))
    wordless = make_reflection("partial", {**partial().fields, "do_differently": "…"})
    record(journal, Task(prompt), wordless, provenance=source("a"))
    assert tree(journal.folder) == [
        f"a/2026-03-01-{title}.md"
        for title in (
            "always-look-at-the-date",
            "never-guess-a-name",
            "read-the-sitemap-before-any",
            "use-the-api-it-is",
            "wait-one-second-between-two",
            "you-are-a-careful-agent",
            "сначала-проверь-дату",
        )
    ]


def test_x15_a_link_in_the_way_is_refused(journal, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    journal.folder.mkdir()
    (journal.folder / "researcher-agent").symlink_to(outside)
    with pytest.raises(LessonStoreError, match="is a link"):
        write(journal)
    with pytest.raises(LessonStoreError, match="is a link"):
        journal.list("researcher-agent")
    assert list(outside.iterdir()) == []
    (journal.folder / "b").mkdir()
    (journal.folder / "b" / "2026-03-01-fetch-the-listings.md").symlink_to(outside / "new.md")
    assert (write(journal, agent="b")).path.name == "2026-03-01-fetch-the-listings-2.md"
    assert list(outside.iterdir()) == []


def test_x16_same_day_and_title_are_both_kept(journal):
    first = write(journal, reflection=failed(what_happened="the first"))
    second = write(journal, reflection=failed(what_happened="the second"))
    assert tree(journal.folder) == [
        "researcher-agent/2026-03-01-always-validate-api-response-status-2.md",
        "researcher-agent/2026-03-01-always-validate-api-response-status.md",
    ]
    assert "the first" in first.path.read_text("utf-8")
    assert "the second" in second.path.read_text("utf-8")


def test_x16_also_where_the_first_is_archived(tmp_path):
    journal = ReflectionJournal(tmp_path, keep=1)
    for number in range(4):
        write(journal, when=at(1) + number, run_id=f"run-{number}")
    listing = journal.list(archived=True)
    assert [one.entry.source.run_id for one in listing.stored] == ["run-0", "run-1", "run-2"]
    assert len({one.path.name for one in listing.stored}) == 3


def test_x16_x17_processes_at_once_lose_nothing(tmp_path):
    command = [sys.executable, "-W", "error", str(HERE / "writer.py"), str(tmp_path), "12"]
    running = [subprocess.Popen([*command, name]) for name in ("a", "b")]
    assert [process.wait(60) for process in running] == [0, 0]
    journal = ReflectionJournal(tmp_path)
    active, archived = journal.list("shared"), journal.list("shared", archived=True)
    assert (len(active.stored), len(archived.stored)) == (10, 14)
    runs = {one.entry.source.run_id for one in (*active.stored, *archived.stored)}
    assert runs == {f"{name}-{number}" for name in "ab" for number in range(12)}
    assert (active.malformed, archived.malformed) == ((), ())


async def test_x16_tasks_at_once_lose_nothing(journal):
    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(anyio.to_thread.run_sync, bound(write, journal, run_id=f"run-{number}"))
    assert len(journal.list().stored) == 8


def test_x17_the_last_30_of_each_agent_are_active(journal):
    for number in range(34):
        write(journal, when=at(1) + 86400 * number, run_id=f"run-{number}")
    active = journal.list("researcher-agent").stored
    assert [one.entry.source.run_id for one in active] == [f"run-{number}" for number in range(4, 34)]
    assert len(journal.list(archived=True).stored) == 4


def test_x17_limits_are_those_of_each_agent(tmp_path):
    journal = ReflectionJournal(tmp_path, keep=3)
    for number, agent in enumerate("aabbabb"):
        write(journal, agent=agent, when=at(1) + number)
    assert len(journal.list().stored) == 6
    assert [one.entry.agent for one in journal.list(archived=True).stored] == ["b"]


def test_x18_older_ones_are_archived_by_year(tmp_path):
    journal = ReflectionJournal(tmp_path, keep=2)
    for number, year in enumerate((2023, 2024, 2024, 2025, 2026, 2026)):
        write(journal, f"Task {number}", when=at(1 + number, year=year))
    assert tree(tmp_path) == [
        "researcher-agent/2026-03-05-task-4.md",
        "researcher-agent/2026-03-06-task-5.md",
        "researcher-agent/archive/2023/2023-03-01-task-0.md",
        "researcher-agent/archive/2024/2024-03-02-task-1.md",
        "researcher-agent/archive/2024/2024-03-03-task-2.md",
        "researcher-agent/archive/2025/2025-03-04-task-3.md",
    ]
    late = write(journal, "An old one", when=at(1, year=2020))  # the last 30 go by date, not by writing
    assert not late.path.exists()
    assert len(journal.list(archived=True).stored) == 5
    assert len(journal.list().stored) == 2


def test_x18_a_crash_while_archiving_loses_nothing(tmp_path, monkeypatch):
    journal = ReflectionJournal(tmp_path, keep=1)
    for number in range(4):
        journal.write(entry(when=at(1) + number, id=f"id{number}"))

    def dies(path: Path, target: Path) -> Path:
        if monkeypatched.pop():
            raise OSError("the disk is full")
        return renamed(path, target)

    monkeypatched, renamed = [True, False], Path.rename
    monkeypatch.setattr(Path, "rename", dies)
    with pytest.raises(LessonStoreError, match="the disk is full"):
        journal.archive_older("researcher-agent")
    monkeypatch.undo()
    both = journal.list().stored + journal.list(archived=True).stored
    assert sorted(one.id for one in both) == ["id0", "id1", "id2", "id3"]
    journal.archive_older("researcher-agent")
    assert [one.id for one in journal.list().stored] == ["id3"]


def test_what_a_killed_writer_left_is_no_reflection(journal):
    write(journal)
    left, own = (
        journal.folder / "researcher-agent" / name for name in ("2026-03-01-half.md.part", "my.part")
    )
    left.write_text("# Refl")
    own.write_text("mine")
    assert len(journal.list().stored) == 1
    write(journal)
    assert (left.exists(), own.exists()) == (False, True)


def test_files_are_for_this_user(journal):
    stored = write(journal)
    if os.name == "posix":
        assert (stored.path.stat().st_mode & 0o777, stored.path.parent.stat().st_mode & 0o777) == (
            0o600,
            0o700,
        )


def test_malformed_files_are_left_alone(journal):
    folder = journal.folder / "a"
    folder.mkdir(parents=True)
    (folder / "2026-01-01-latin.md").write_bytes(b"\xe9t\xe9")
    (folder / "2026-01-01-large.md").write_bytes(b"x" * 200_001)
    (folder / "2026-01-01-empty.md").write_bytes(b"")
    problems = {bad.path.name: bad.problem for bad in journal.list("a").malformed}
    assert "save it as UTF-8" in problems["2026-01-01-latin.md"]
    assert "200000 bytes" in problems["2026-01-01-large.md"]
    assert "line 1" in problems["2026-01-01-empty.md"]
    write(journal, agent="a")
    assert len(tree(journal.folder)) == 4


def test_a_place_that_can_not_be_used_is_an_error_of_the_store(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(LessonStoreError, match="can't be"):
        write(ReflectionJournal(tmp_path / "file"))
    for keep in (0, True, 1.5):
        with pytest.raises(ConfigurationError, match="keep"):
            ReflectionJournal(tmp_path, keep=keep)


def test_a_busy_lock_is_an_error_that_says_so(journal, monkeypatch):
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.1)
    with (
        files._locked(journal.folder / "researcher-agent"),
        pytest.raises(LessonStoreError, match="another writer"),
    ):
        write(journal)


def test_a_folder_that_may_not_be_looked_into_is_an_error_that_names_it(journal, monkeypatch):
    write(journal)

    def refused(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", refused)
    with pytest.raises(LessonStoreError, match=r"reflections can't be read: .*Permission denied"):
        journal.list()
