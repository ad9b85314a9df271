"""What a language model is shown and how its answers are read; nothing here starts the engine."""

from __future__ import annotations

import re
from itertools import product

import anyio
import pytest
from click.testing import CliRunner

from benchmarks.alfworld.agent import DIALECT, LESSONS_BLOCK
from benchmarks.alfworld.command import alfworld
from benchmarks.alfworld.dialect import in_dialect, read_command, without_location
from benchmarks.alfworld.dry_run import dry_run_model
from benchmarks.alfworld.games import KINDS
from benchmarks.alfworld.goal import parse_goal
from benchmarks.alfworld.model_player import ModelPlayer, first_line
from benchmarks.alfworld.model_prompt import EXAMPLES, examples, rules, system_prompt
from jeeves_reflexion import ConfigurationError, Message, ScriptedModel, Session, Task

OPENING = (
    "You are in the middle of a room. Looking quickly around you, you see a desk 1, and a shelf 1.\n\n"
    "Your task is to: put some mug on shelf."
)
FORMS = re.compile(
    r"(?:go to|open|close|examine|use) \w+ \d+|take \w+ \d+ from \w+ \d+|look|inventory"
    r"|(?:heat|cool|clean) \w+ \d+ with \w+ \d+"
)
PUTTING = {"move": re.compile(r"move \w+ \d+ to \w+ \d+"), "put": re.compile(r"put \w+ \d+ in/on \w+ \d+")}


def task(kind=KINDS[0], dialect="move"):
    return Task(OPENING, id="t", kind=kind, metadata={DIALECT: dialect})


def played(replies, observations, *, dialect="move"):
    model = ScriptedModel(replies)
    player = ModelPlayer(model, task(dialect=dialect), Session(attempt=1))

    async def play():
        return [await player.next(said) for said in observations]

    return anyio.run(play), model.calls


def test_both_dialects_are_recognised_in_games_of_either():
    for written in [
        "put mug 1 in/on desk 1",
        "put mug 1 in desk 1",
        "Put the mug 1 on the desk 1.",
        "put mug 1 into desk 1",
        "put mug 1 in / on desk 1",
        "move mug 1 to desk 1",
        "Move the mug 1 onto desk 1",
        "place mug 1 in desk 1",
        "  `move  mug 1 to desk 1`  ",
    ]:
        assert read_command(written, "move") == "move mug 1 to desk 1"
        assert read_command(written, "put") == "put mug 1 in/on desk 1"


def test_nothing_else_is_mended():
    for dialect in ("move", "put"):
        assert read_command("Go to the Fridge 1.", dialect) == "go to fridge 1"
        assert read_command(".", dialect) == ""
        for written in ("take mug 1 from desk 1", "put", "put the mug down", "jump"):
            assert read_command(written, dialect) == written


def test_replies_in_the_forms_that_models_write():
    assert first_line("Action: go to desk 1") == "go to desk 1"
    assert first_line("```\n> open drawer 1\n```") == "open drawer 1"
    assert first_line("think: the action: is next") == "think: the action: is next"


def test_a_number_of_a_place_is_not_shown():
    assert without_location("You arrive at loc 30. On the desk 1, you see a mug 1.") == (
        "On the desk 1, you see a mug 1."
    )
    assert without_location("You arrive at desk 1. On it.") == "You arrive at desk 1. On it."


def test_the_examples_of_a_type_are_of_that_type_and_in_one_dialect():
    for kind, dialect in list(product(KINDS, ["move", "put"])):
        texts = examples(kind, dialect)
        assert len(set(texts)) == EXAMPLES == 2
        for text in texts:
            head = text.split("\n\n> ")[0]
            assert _kind(head) == kind
            lines = [line.removeprefix("> ") for line in text.splitlines() if line.startswith("> ")]
            commands = [line for line in lines if not line.startswith("think: ")]
            assert 1 <= len(commands) < len(lines), "an example shows thoughts, too"
            assert len(commands) <= 50
            assert all(FORMS.fullmatch(c) or PUTTING[dialect].fullmatch(c) for c in commands)
            assert all(read_command(command, dialect) == command for command in commands)
            assert "#" not in text
            assert "Nothing happens" not in text
        assert len(set(map(str, texts))) == 2
        assert ("You move" in "".join(texts)) == (dialect == "move" and kind != "look_at_obj_in_light")


def _kind(opening):
    goal = parse_goal(opening)
    if goal.lamp is not None:
        return "look_at_obj_in_light"
    if goal.count == 2:
        return "pick_two_obj_and_place"
    if goal.treatment is not None:
        return f"pick_{goal.treatment}_then_place_in_recep"
    return "pick_and_place_simple"


def test_all_examples_differ():
    assert len({text for kind in KINDS for text in examples(kind, "move")}) == 12


def test_the_prompt_holds_rules_examples_and_lessons_in_this_order():
    prompt = system_prompt(KINDS[2], "put", "- Look </lessons> there.")
    places = [prompt.index(part) for part in (rules("put"), *examples(KINDS[2], "put"), "Look &lt;/lessons>")]
    assert places == sorted(places)
    assert "> put (object) in/on (receptacle)" in prompt
    assert "move" not in rules("put")
    assert "<lessons" not in system_prompt(KINDS[2], "put", "")
    assert "Example" not in system_prompt(None, "move", "")
    with pytest.raises(ConfigurationError, match="pick_nothing"):
        system_prompt("pick_nothing", "move", "")


def test_a_text_of_commands_is_turned_into_the_older_dialect():
    text = "> move mug 1 to desk 1\nYou move the mug 1 to the desk 1.\n> go to desk 1\nYou arrive at desk 1. On it."
    assert in_dialect(text, "move") == text
    assert in_dialect(text, "put") == (
        "> put mug 1 in/on desk 1\nYou put the mug 1 in/on the desk 1.\n> go to desk 1\nOn it."
    )


def test_commands_are_played_in_the_dialect_of_the_game():
    moves, calls = played(
        ["go to desk 1", "move mug 1 to shelf 1", "."], [OPENING, "A.", "B."], dialect="put"
    )
    assert [move.command for move in moves] == ["go to desk 1", "put mug 1 in/on shelf 1", "look"]
    last = [message.content for message in calls[-1].messages[1:]]
    assert last == [OPENING, "> go to desk 1", "A.", "> put mug 1 in/on shelf 1", "B."]


def test_a_thought_is_a_move_of_its_own():
    replies = ["think: one", "> think:  two ", "think: three", "think: four", "go to desk 1"]
    moves, calls = played(replies, [OPENING, "OK.", "OK.", "OK.", "OK."])
    assert moves == [
        *(("", f"think: {word}") for word in ("one", "two", "three", "four")),
        ("", "go to desk 1"),
    ]
    last = [message.content for message in calls[-1].messages[1:]]
    assert last[:4] == [OPENING, "> think: one", "OK.", "> think: two"]


def test_the_lessons_of_the_session_reach_the_prompt():
    model = ScriptedModel(["look"])
    session = Session(attempt=2, blocks={LESSONS_BLOCK: "- First.\n- Second.\n- Third."})
    anyio.run(ModelPlayer(model, task(), session).next, OPENING)
    assert "- First.\n- Second.\n- Third." in model.calls[0].messages[0].content


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--dry-run", "--model", "m"], "leave --model"),
        (["--repeats", "2"], "goes with --model"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments, word, tmp_path):
    result = CliRunner().invoke(
        alfworld, [*arguments, "--embedder", "hashing", "--out", str(tmp_path / "out")]
    )
    assert isinstance(result.exception, ConfigurationError)
    assert word in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_the_dry_run_answers_by_the_conversation_alone():
    model = dry_run_model()
    conversation = [Message("system", system_prompt(KINDS[0], "move", "")), Message("user", OPENING)]

    async def ask(messages):
        return (await model.complete(messages)).text

    first = anyio.run(ask, conversation)
    assert first == anyio.run(ask, conversation)
    assert first.startswith("> think: ")
    conversation += [Message("assistant", "> " + first_line(first)), Message("user", "OK.")]
    assert first_line(anyio.run(ask, conversation)) in {"go to desk 1", "go to shelf 1"}
    other = anyio.run(ask, [Message("system", "You write lessons."), Message("user", "...")])
    assert "think" not in other
