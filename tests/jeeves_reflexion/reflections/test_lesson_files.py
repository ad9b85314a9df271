"""Lessons of one sentence as Markdown files, edited by hand and compared with what is stored."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jeeves_reflexion import Lesson, LessonStoreError, Provenance, Task
from jeeves_reflexion.lessons import shape_problem
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.reflections.lesson_files import (
    LessonChanges,
    LessonFile,
    export_lessons,
    lesson_changes,
    lesson_markdown,
    lesson_of_markdown,
)
from jeeves_reflexion.reflections.markdown import MarkdownError


def lesson(number: int = 1, text: str = "Look at the status before the body.", **more) -> Lesson:
    source = Provenance("run", 2, 0.25, "model", "Some Agent", 1772366400.0)
    return Lesson(f"id{number}", text, "task", f"Fetch {number}", source, "scraping", ("http_get",), **more)


def paired(lessons):
    return [(each, [each.task_excerpt]) for each in lessons]


def test_the_file():
    assert lesson_markdown(lesson()).split("<!--")[0] == (
        "# Lesson: 2026-03-01 - some-agent - Fetch 1\n\nLook at the status before the body.\n\n"
    )


@given(
    text=st.text("abc .>-#`<!\u2028\n", min_size=1, max_size=40),
    excerpt=st.text(max_size=40).filter(lambda text: redact(text) == text),  # "FC00::" is an address
    metadata=st.dictionaries(st.text(max_size=4), st.text("->a", max_size=9), max_size=2),
)
def test_what_is_written_is_read_back(text, excerpt, metadata):
    made = replace(
        lesson(), text=f"Go on {' '.join(text.split())}".strip(), task_excerpt=excerpt, metadata=metadata
    )
    page = lesson_markdown(made)
    assert lesson_of_markdown(page).lesson == made
    if shape_problem(made.text):  # such as "a. B": what a person writes is one sentence
        with pytest.raises(MarkdownError, match="one sentence"):
            lesson_of_markdown(page.split("<!-- jeeves")[0])


LONG = f"""Book a flight.

1. Look at `prices` first.
```python
## Task
pay()
```
<!-- jeeves-reflexion lesson: {{"lesson_id":"other"}} -->
{"Mind the baggage. " * 30}"""


@given(
    tasks=st.lists(st.text("a#Task `~\n\t\u2028-<>!", min_size=1).filter(str.strip), min_size=1, max_size=3)
)
def test_tasks_are_read_back_whole(tasks):
    read = lesson_of_markdown(lesson_markdown(lesson(), tasks))
    assert read.lesson == lesson()
    assert read.tasks == tuple(tasks)


def test_the_file_has_the_whole_task_where_the_title_has_not():
    excerpt = f"{LONG[:100]} ... {LONG[-90:]}"
    made = replace(lesson(), task_excerpt=excerpt)
    page = lesson_markdown(made, [LONG, "Fetch 1"])
    assert f"\n\n## Task\n\n````text\n{LONG}\n````\n\n## Task\n\n```text\nFetch 1\n```\n\n<!-- " in page
    assert lesson_of_markdown(page) == LessonFile(made, (LONG, "Fetch 1"))
    assert "## Task" not in lesson_markdown(lesson(), ["Fetch 1"])
    assert lesson_of_markdown(lesson_markdown(lesson(), ["Fetch 1"])).tasks == ()


def test_no_secret_gets_into_the_file():
    source = replace(lesson().provenance, agent="ann@example.org", run_id="for bob@example.org")
    made = replace(
        lesson(),
        provenance=source,
        task_excerpt="ask cid@example.org",
        metadata={"copies": ["dee@example.org"]},
    )
    page = lesson_markdown(made, ["ask eve@example.org for the key sk-proj-abcdefghij0123456789ABCD"])
    assert "example.org" not in page
    assert "abcdefghij" not in page


def test_a_page_written_by_hand_may_name_its_task_whole():
    page = "# Lesson: 2026-03-02 - me - Pay\n\nPay before\nnoon.\n\n## Task\n```\nPay the bill.\nAll of it.\n```\n"
    read = lesson_of_markdown(page)
    assert (read.lesson.text, read.tasks) == ("Pay before noon.", ("Pay the bill.\nAll of it.",))
    assert read.lesson.task_id == Task("Pay the bill.\nAll of it.").id
    assert read.lesson.task_excerpt == "Pay the bill. All of it."


def test_a_file_is_named_after_its_lesson_and_not_after_tasks_that_begin_alike(tmp_path):
    texts = ("Look at the status before the body.", "Never guess a name.")
    export_lessons(tmp_path, paired(lesson(number, text) for number, text in enumerate(texts)))
    assert sorted(path.name for path in tmp_path.glob("*.md")) == [
        "2026-03-01-look-at-the-status-before.md",
        "2026-03-01-never-guess-a-name.md",
    ]


def test_edits_additions_and_removals_are_shown(tmp_path):
    stored = [lesson(number) for number in range(4)]
    assert export_lessons(tmp_path / "out", paired(stored)) == 4
    folder = tmp_path / "out"
    assert lesson_changes(folder, stored) == LessonChanges()
    edited, removed, broken = (
        folder / f"2026-03-01-look-at-the-status-before{number}.md" for number in ("", "-2", "-3")
    )
    edited.write_text(edited.read_text("utf-8").replace("the body", "all else"), "utf-8")
    removed.unlink()
    broken.write_text(broken.read_text("utf-8").replace("# Lesson", "Lesson"), "utf-8")
    (folder / "mine.md").write_text("# Lesson: 2026-03-02 - me - Pay the bill\n\nPay before noon.\n", "utf-8")

    changes = lesson_changes(folder, stored)
    assert changes.changed == (replace(stored[0], text="Look at the status before all else."),)
    assert changes.removed == (stored[1],)
    assert [(bad.path, bad.id) for bad in changes.malformed] == [(broken, "id2")]
    (new,) = changes.added
    assert (new.text, new.task_excerpt, new.provenance.agent, new.trust) == (
        "Pay before noon.",
        "Pay the bill",
        "me",
        "imported",
    )
    assert export_lessons(folder, paired(stored[:1])) == 1  # over its own file
    assert len(list(folder.glob("*.md"))) == 4


posix = pytest.mark.skipif(os.name != "posix", reason="links, pipes and permissions of POSIX")
SPOILED = {
    "utf-16": lambda path: path.write_bytes(path.read_text("utf-8").encode("utf-16")),
    "utf-32": lambda path: path.write_bytes(path.read_text("utf-8").encode("utf-32")),
    "latin-1": lambda path: path.write_bytes(
        path.read_text("utf-8").replace("status", "st\u00e4tus").encode("latin-1")
    ),
    "noise": lambda path: path.write_bytes(bytes(range(256))),
    "empty": lambda path: path.write_bytes(b""),
    "zeros, as a power cut leaves them": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "cut after its title": lambda path: path.write_bytes(path.read_bytes().split(b"\n")[0]),
    "cut within its title": lambda path: path.write_bytes(path.read_bytes()[:12]),
    "too large": lambda path: path.write_bytes(b" " * 2_000_000),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link": lambda path: (
        path.rename(path.with_suffix(".kept")),
        path.symlink_to(path.with_suffix(".kept")),
    ),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
}


@posix
@pytest.mark.parametrize("how", SPOILED)
def test_a_file_that_is_left_alone_has_no_lesson_taken_for_removed(tmp_path, how):
    stored = [lesson(1), lesson(2, "Never guess a name.")]
    export_lessons(tmp_path, paired(stored))
    path = tmp_path / "2026-03-01-look-at-the-status-before.md"
    SPOILED[how](path)
    changes = lesson_changes(tmp_path, stored)
    assert [bad.path for bad in changes.malformed] == [path]
    assert (changes.added, changes.changed, changes.removed) == ((), (), ())


@posix
def test_a_link_to_a_file_elsewhere_shows_nothing_of_it(tmp_path):
    (tmp_path / "secret").write_text("root:x:0:0")
    folder = tmp_path / "lessons"
    folder.mkdir()
    (folder / "passwd.md").symlink_to(tmp_path / "secret")
    (bad,) = lesson_changes(folder, ()).malformed
    assert "root" not in bad.problem
    assert "link" in bad.problem


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("hello", 1, "should read"),
        ("# Lesson: 2026-13-01 - me - x\n\nGo left.", 1, "no date"),
        ("# Lesson: 2026-03-01 - me - x\n", 2, "it is empty"),
        ("# Lesson: 2026-03-01 - me - x\n\nGo left. Then go right.", 3, "2 sentences"),
        (
            "# Lesson: 2026-03-01 - me - x\n\nGo left.\n\n<!-- jeeves-reflexion lesson: {} -->",
            5,
            "data can't be read",
        ),
        ("# Lesson: 2026-03-01 - me - x\n\nGo left.\n\n## Task\n\nhello", 5, "between two lines"),
        ("# Lesson: 2026-03-01 - me - x\n\nGo left.\n\n## Task", 5, "between two lines"),
        ("# Lesson: 2026-03-01 - me - x\n\nGo left.\n\n## Task\n````\nhello\n```", 5, "between two lines"),
        ("# Lesson: 2026-03-01 - me - x\n\nGo left.\n\n## Task\n```\n\n```", 5, "belongs a text"),
        ("# Lesson: 2026-03-01 - me - x\n\nGo left.\n\n## Task\n```\na\n```\nmore", 9, "nothing else"),
    ],
)
def test_an_error_names_the_line(text, line, says):
    with pytest.raises(MarkdownError, match=says) as caught:
        lesson_of_markdown(text)
    assert caught.value.line == line


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(LessonStoreError, match="export"):
        lesson_changes(tmp_path / "none", [])
    (tmp_path / "file").write_text("x")
    with pytest.raises(LessonStoreError, match="can't be written"):
        export_lessons(tmp_path / "file", paired([lesson()]))
