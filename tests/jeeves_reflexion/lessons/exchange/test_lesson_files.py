"""Lessons of one sentence as Markdown files, edited by hand and compared with what is stored."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jeeves_reflexion import Lesson, LessonStoreError, Provenance
from jeeves_reflexion.lessons import shape_problem
from jeeves_reflexion.lessons.exchange.markdown import (
    LessonChanges,
    export_lessons,
    lesson_changes,
    lesson_markdown,
    lesson_of_markdown,
)
from jeeves_reflexion.lessons.reflections.markdown import MarkdownError


def lesson(number: int = 1, text: str = "Look at the status before the body.", **more) -> Lesson:
    source = Provenance("run", 2, 0.25, "model", "Some Agent", 1772366400.0)
    return Lesson(f"id{number}", text, "task", f"Fetch {number}", source, "scraping", ("http_get",), **more)


def test_the_file():
    assert lesson_markdown(lesson()).split("<!--")[0] == (
        "# Lesson: 2026-03-01 - some-agent - Fetch 1\n\nLook at the status before the body.\n\n"
    )


@given(
    text=st.text("abc .>-#`<!\u2028\n", min_size=1, max_size=40),
    excerpt=st.text(max_size=40),
    metadata=st.dictionaries(st.text(max_size=4), st.text("->a", max_size=9), max_size=2),
)
def test_what_is_written_is_read_back(text, excerpt, metadata):
    made = replace(
        lesson(), text=f"Go {' '.join(text.split())}".strip(), task_excerpt=excerpt, metadata=metadata
    )
    if shape_problem(made.text):  # such as "a. B": what is no lesson is refused
        with pytest.raises(MarkdownError, match="one sentence"):
            lesson_of_markdown(lesson_markdown(made))
    else:
        assert lesson_of_markdown(lesson_markdown(made)) == made


def test_edits_additions_and_removals_are_shown(tmp_path):
    stored = [lesson(number) for number in range(4)]
    assert export_lessons(tmp_path / "out", stored) == 4
    folder = tmp_path / "out"
    assert lesson_changes(folder, stored) == LessonChanges()
    edited, removed, broken = (folder / f"2026-03-01-fetch-{number}.md" for number in (0, 1, 2))
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
    assert export_lessons(folder, [stored[0]]) == 1  # over its own file
    assert len(list(folder.glob("*.md"))) == 4


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
        export_lessons(tmp_path / "file", [lesson()])
