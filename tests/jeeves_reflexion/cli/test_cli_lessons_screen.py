"""``jeeves-reflexion lessons`` as a person sees it on a terminal."""

import re

import pytest

from jeeves_reflexion.cli.screen import Screen

TASK = "Put a clean mug on the desk beside the lamp of the bedroom, but not on the book that lies open there."
LESSON = (
    "Wash the mug in the sink before you carry it, and dry it with the towel that hangs beside the window."
)


@pytest.fixture(params=[80, 120])
def width(request, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(request.param))
    return request.param


def lines(result):
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", result.stdout).splitlines()]


def test_nothing_is_wider_than_the_terminal(cli, fill, width):
    for arguments in [["list"], ["search", TASK], ["why", TASK], ["stats"], ["show"]]:
        (lesson_id,) = fill([(TASK, LESSON)])
        given = [*arguments, lesson_id] if arguments[0] == "show" else arguments
        shown = lines(cli("lessons", *given))
        assert max(map(len, shown)) <= width
        if arguments[0] != "stats":
            assert LESSON in " ".join(line.strip() for line in shown).replace("lesson ", "")


def test_an_item_stands_beside_its_id(cli, fill, width):
    (lesson_id,) = fill([(TASK, LESSON)])
    first, *rest = lines(cli("lessons", "list"))
    assert first == f"{lesson_id[:8]}  2023-11-14  score 0.25  active"
    assert all(line.startswith(" " * 10) for line in rest)
    assert any(line.strip().startswith("task: Put a clean mug") for line in rest)


def test_a_hostile_text_moves_no_cursor(capsys, width):
    fields = {
        "id": "1\x1b[2J",
        "why": "a \x1b]0;owned\x07 b",
        "text": "red \x1b[31mred [bold]this[/bold]\r\n!",
    }
    Screen(quiet=False).entry(fields)
    Screen().note("  ".join(fields.values()))
    caught = capsys.readouterr()
    shown = re.sub(r"\x1b\[[0-9;]*m", "", caught.out + caught.err)
    assert "\x1b" not in shown
    assert "\r" not in shown
    assert "owned" not in shown
    assert shown.count("red red [bold]this[/bold] !") == 2
