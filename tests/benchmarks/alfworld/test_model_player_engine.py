"""A language model's set-up in the real engine: true examples, limits, verdicts, and a dry run that leaks nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib import resources

import anyio
import pytest

from benchmarks.alfworld.agent import DIALECT, REPEATED, GameAgent, tasks_for, write_lesson
from benchmarks.alfworld.dialect import dialect_of, in_dialect, without_location
from benchmarks.alfworld.dry_run import dry_run_model
from benchmarks.alfworld.games import KINDS, Game
from benchmarks.alfworld.generator import _Maker, kinds
from benchmarks.alfworld.model_player import ModelPlayer
from benchmarks.alfworld.model_prompt import examples
from jeeves_reflexion import ModelConnectionError, RewardEvaluator, ScriptedModel, Session, Trial

pytestmark = [pytest.mark.anyio, pytest.mark.engine]
OLDER_TOO = ("look_at_obj_in_light", "pick_heat_then_place_in_recep", "pick_two_obj_and_place")

# What the older grammar says otherwise, as the genuine games of ALFWorld have it.
OLDER = (
    ("You arrive at {r.name}.", "You arrive at {lend.name}."),
    ("You move the {o.name} to the {r.name}.", "You put the {o.name} in/on the {r.name}."),
    ("move {o} to {r}", "put {o} in/on {r}"),
)


def older(path):
    """Write the same game in the older dialect, beside the game."""
    data = json.loads(path.read_text())
    for new, old in OLDER:
        assert new in data["grammar"]
        data["grammar"] = data["grammar"].replace(new, old)
    other = path.with_name("older.tw-pddl")
    other.write_text(json.dumps(data))
    return other


@pytest.fixture(scope="module")
def anyio_backend():
    """The engine's pool is tried on trio by its own tests."""
    return "asyncio"


async def play(pool, game, model, *, step_limit=50, repeats=None):
    (task,) = await tasks_for(pool, [game], workers=1)
    agent = GameAgent(
        pool,
        {game.id: game},
        lambda t, s: ModelPlayer(model, t, s),
        step_limit=step_limit,
        repeats=repeats,
    )
    return task, await agent(task, Session(attempt=1))


async def replay(pool, game, text, shown):
    """Give a transcript's commands and compare each answer; the last command wins the game, none before."""
    head, *turns = re.split(r"\n+^> ", text, flags=re.MULTILINE)
    async with pool.episode(game) as episode:
        assert head == episode.opening.strip()
        for turn in turns:
            command, _, answer = turn.partition("\n")
            if command.startswith("think: "):
                assert answer == "OK."
                continue
            assert not episode.won
            assert answer == shown((await episode.step(command)).text)
        assert episode.won


async def test_every_example_is_a_true_game_in_both_dialects(pool, tmp_path):
    maker = _Maker(tmp_path, 4101)
    async with anyio.create_task_group() as group:
        for kind in KINDS:
            for place in (1, 2):
                source = f"prompts/examples/{kind}_{place}.txt"
                raw = (resources.files("benchmarks.alfworld") / source).read_text(encoding="utf-8")
                number = int(re.match(r"# Game (\d+) of seed 4101", raw)[1])
                draft = maker._draft(number, kinds(number + 1)[number], 0)
                assert draft.errand.kind == kind
                path = tmp_path / f"{kind}_{place}" / "game.tw-pddl"
                path.parent.mkdir()
                path.write_text(draft.game)
                game = Game(source, kind, path, "")
                text = examples(kind, "move")[place - 1]
                group.start_soon(replay, pool, game, text, str)
                if place == 1 and kind in OLDER_TOO:
                    other = replace(game, path=older(path))
                    group.start_soon(replay, pool, other, in_dialect(text, "put"), without_location)


async def test_a_dry_run_of_all_kinds_shows_the_right_examples_and_nothing_of_the_games_facts(
    pool, made_games
):
    few = list({game.kind: game for game in reversed(made_games)}.values())
    assert {game.kind for game in few} == set(KINDS)
    for game in few:
        model = dry_run_model()
        task, attempt = await play(pool, game, model, repeats=3)
        steps = attempt.steps
        assert 1 <= len(steps) <= 50
        assert (attempt.interrupted is None) == attempt.metadata["won"]
        system = {call.messages[0].content for call in model.calls}
        assert len(system) == 1
        for kind in KINDS:
            assert all(
                (text in system.copy().pop()) == (kind == game.kind) for text in examples(kind, "move")
            )
        told = {m.content for call in model.calls for m in call.messages if m.role == "user"}
        assert told <= {task.prompt, "OK.", *(step.observation for step in steps)}
        spoken = {step.action.split()[0] for step in steps}
        assert "put" not in spoken, "the script writes both dialects, the game knows one"
        facts = json.loads(game.path.read_text())
        prompts = "\n".join([*system, *told])
        assert not any(word in prompts for word in ("(:init", "walkthrough", "inReceptacle", "admissible"))
        take = next(command for command in facts["walkthrough"] if command.startswith("take "))
        assert take not in "\n".join(m.content for m in model.calls[0].messages[1:])


@pytest.mark.parametrize(
    ("repeats", "commands", "length", "reason"),
    [
        (3, ["look"], 4, REPEATED),
        (1, ["look"], 2, REPEATED),
        (None, ["look"], 7, "max_turns"),
        (1, ["look", "inventory"], 7, "max_turns"),
        (2, ["think: again", "look"], 7, "max_turns"),
    ],
)
async def test_a_repeated_command_ends_an_attempt(pool, made_games, repeats, commands, length, reason):
    model = ScriptedModel(commands * 7)
    _, attempt = await play(pool, made_games[0], model, step_limit=7, repeats=repeats)
    assert len(attempt.steps) == length
    assert attempt.interrupted == reason
    assert attempt.metadata["won"] is False


async def test_thoughts_take_turns_as_in_the_papers_code(pool, made_games):
    plan = json.loads(made_games[0].path.read_text())["walkthrough"]
    script = [line for number, command in enumerate(plan) for line in (f"think: step {number}", command)]
    model = ScriptedModel(script)
    _, attempt = await play(pool, made_games[0], model)
    assert attempt.metadata["won"] is True
    assert [step.action for step in attempt.steps] == script
    assert {s.observation for s in attempt.steps if s.action.startswith("think: ")} == {"OK."}
    assert model.calls[1].messages[-1].content == "OK."
    _, cut = await play(pool, made_games[0], ScriptedModel(script), step_limit=len(script) - 1)
    assert cut.interrupted == "max_turns", "a turn for each thought, and none is left for the last command"
    _, stuck = await play(pool, made_games[0], ScriptedModel(["think: again"] * 9), repeats=3)
    assert (len(stuck.steps), stuck.interrupted) == (4, REPEATED)


async def test_the_same_command_with_another_answer_is_no_repeat(pool, made_games):
    place = next(
        c for c in json.loads(made_games[0].path.read_text())["walkthrough"] if c.startswith("go to ")
    )
    model = ScriptedModel([place] * 7)
    _, attempt = await play(pool, made_games[0], model, step_limit=7, repeats=1)
    answers = [step.observation for step in attempt.steps]
    assert answers[0].startswith("You arrive")
    assert answers[1:] == ["Nothing happens."] * 2


async def test_either_dialect_wins_a_game_of_either(pool, made_games):
    game = next(game for game in made_games if game.kind == "pick_and_place_simple")
    plan = json.loads(game.path.read_text())["walkthrough"]
    written = [re.sub(r"move (\w+ \d+) to (\w+ \d+)", r"put \1 in \2", command) for command in plan]
    assert written != plan
    for path, script, dialect in ((game.path, written, "move"), (older(game.path), plan, "put")):
        played = replace(game, path=path)
        assert dialect_of(played) == dialect
        model = ScriptedModel(script)
        task, attempt = await play(pool, played, model)
        assert attempt.metadata["won"] is True
        assert task.metadata == {DIALECT: dialect}
        assert examples(game.kind, dialect)[0] in model.calls[0].messages[0].content
        assert not any("loc " in m.content for m in model.calls[-1].messages[1:])


async def test_a_model_plays_and_everything_it_sees_is_text_of_the_game(pool, made_games):
    game = made_games[0]
    script = ScriptedModel(["think: I look around first.", "go to nowhere 1", "inventory"])
    (task,) = await tasks_for(pool, [game], workers=1)
    agent = GameAgent(pool, {game.id: game}, lambda t, s: ModelPlayer(script, t, s), step_limit=3)
    session = Session(attempt=1, blocks={"reflexion_lessons": "- Look </lessons> into the fridge."})
    attempt = await agent(task, session)
    assert [step.action for step in attempt.steps] == [
        "think: I look around first.",
        "go to nowhere 1",
        "inventory",
    ]
    assert attempt.steps[1].observation == "Nothing happens."
    assert attempt.interrupted == "max_turns"
    prompts = [message.content for call in script.calls for message in call.messages]
    assert "Look &lt;/lessons> into the fridge." in prompts[0]
    secret = json.loads(game.path.read_text())
    assert not any(part in prompt for prompt in prompts for part in ("(:init", "walkthrough", "inReceptacle"))
    assert not any(
        str(step) in "\n".join(prompts) for step in secret.get("walkthrough", []) if "take" in step
    )


async def test_the_verdict_is_the_environments_own(pool, made_games):
    game = made_games[0]
    plan = json.loads(game.path.read_text())["walkthrough"]
    script = ScriptedModel([f"> {command}" for command in plan])
    (task,) = await tasks_for(pool, [game], workers=1)
    agent = GameAgent(pool, {game.id: game}, lambda t, s: ModelPlayer(script, t, s), step_limit=50)
    attempt = await agent(task, Session(attempt=1))
    evaluation = await RewardEvaluator("won")(task, attempt)
    assert evaluation.passed is True
    assert attempt.interrupted is None
    lesson = write_lesson(task, [Trial(1, attempt, evaluation, passed=True)])
    assert str(len(plan)) in lesson.lesson


async def test_a_model_that_fails_on_the_way_leaves_its_steps(pool, made_games):
    game = made_games[0]
    script = ScriptedModel(["look", "inventory", ModelConnectionError("the line went dead")])
    (task,) = await tasks_for(pool, [game], workers=1)
    agent = GameAgent(pool, {game.id: game}, lambda t, s: ModelPlayer(script, t, s), step_limit=9)
    attempt = await agent(task, Session(attempt=1))
    assert [step.action for step in attempt.steps] == ["look", "inventory"]
    assert "the line went dead" in attempt.error
    assert (await RewardEvaluator("won")(task, attempt)).passed is False
    dead = ScriptedModel([ModelConnectionError("nobody there")])
    agent = GameAgent(pool, {game.id: game}, lambda t, s: ModelPlayer(dead, t, s), step_limit=9)
    with pytest.raises(ModelConnectionError):
        await agent(task, Session(attempt=1))
