"""A language model's set-up in the real engine: true examples, limits, dialects, and a dry run that leaks nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib import resources

import anyio
import pytest
from click.testing import CliRunner

from benchmarks.alfworld.agent import COMMANDS_NOTE, DIALECT, REPEATED, GameAgent, tasks_for
from benchmarks.alfworld.command import alfworld
from benchmarks.alfworld.dialect import dialect_of, in_dialect, without_location
from benchmarks.alfworld.dry_run import dry_run_model
from benchmarks.alfworld.games import KINDS, Game
from benchmarks.alfworld.generator import _Maker, kinds
from benchmarks.alfworld.model_player import ModelPlayer
from benchmarks.alfworld.model_prompt import examples
from benchmarks.alfworld.pool import EnginePool
from jeeves_reflexion import ConfigurationError, ScriptedModel, Session

pytestmark = pytest.mark.engine
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


@pytest.fixture
def anyio_backend():
    """The engine's pool is tried on trio by its own tests."""
    return "asyncio"


async def play(pool, game, model, *, step_limit=50, repeats=None, show_commands=False, thoughts_cost=False):
    (task,) = await tasks_for(pool, [game], workers=1)
    agent = GameAgent(
        pool,
        {game.id: game},
        lambda t, s: ModelPlayer(model, t, s, thoughts_cost=thoughts_cost),
        step_limit=step_limit,
        repeats=repeats,
        show_commands=show_commands,
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


@pytest.mark.anyio
async def test_every_example_is_a_true_game_in_both_dialects(engine, tmp_path):
    maker = _Maker(tmp_path, 4101)
    async with EnginePool(2) as pool, anyio.create_task_group() as group:
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


@pytest.mark.anyio
async def test_a_dry_run_of_all_kinds_shows_the_right_examples_and_nothing_of_the_games_facts(made_games):
    few = list({game.kind: game for game in reversed(made_games)}.values())
    assert {game.kind for game in few} == set(KINDS)
    async with EnginePool(2) as pool:
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
            assert not any(
                word in prompts for word in ("(:init", "walkthrough", "inReceptacle", "admissible")
            )
            take = next(command for command in facts["walkthrough"] if command.startswith("take "))
            assert take not in "\n".join(m.content for m in model.calls[0].messages[1:])


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("repeats", "commands", "length", "reason"),
    [
        (3, ["look"], 4, REPEATED),
        (1, ["look"], 2, REPEATED),
        (None, ["look"], 7, "max_turns"),
        (1, ["look", "inventory"], 7, "max_turns"),
        (2, ["think: again", "look"], 3, REPEATED),
    ],
)
async def test_a_repeated_command_ends_an_attempt(made_games, repeats, commands, length, reason):
    model = ScriptedModel(commands * 7)
    async with EnginePool(1) as pool:
        _, attempt = await play(pool, made_games[0], model, step_limit=7, repeats=repeats)
    assert len(attempt.steps) == length
    assert attempt.interrupted == reason
    assert attempt.metadata["won"] is False


@pytest.mark.anyio
async def test_thoughts_take_turns_as_in_the_papers_code(made_games):
    plan = json.loads(made_games[0].path.read_text())["walkthrough"]
    script = [line for number, command in enumerate(plan) for line in (f"think: step {number}", command)]
    async with EnginePool(1) as pool:
        model = ScriptedModel(script)
        _, attempt = await play(pool, made_games[0], model, thoughts_cost=True, show_commands=True)
        assert attempt.metadata["won"] is True
        assert [step.action for step in attempt.steps] == script
        assert {s.observation for s in attempt.steps if s.action.startswith("think: ")} == {"OK."}
        after_a_thought = model.calls[1].messages[-1].content
        assert after_a_thought.startswith("OK." + COMMANDS_NOTE), "what is possible is shown still"
        _, cut = await play(
            pool, made_games[0], ScriptedModel(script), thoughts_cost=True, step_limit=len(script) - 1
        )
        assert cut.interrupted == "max_turns", (
            "a turn for each thought, and none is left for the last command"
        )
        _, stuck = await play(
            pool, made_games[0], ScriptedModel(["think: again"] * 9), thoughts_cost=True, repeats=3
        )
        assert (len(stuck.steps), stuck.interrupted) == (4, REPEATED)


@pytest.mark.anyio
async def test_the_same_command_with_another_answer_is_no_repeat(made_games):
    place = next(
        c for c in json.loads(made_games[0].path.read_text())["walkthrough"] if c.startswith("go to ")
    )
    model = ScriptedModel([place] * 7)
    async with EnginePool(1) as pool:
        _, attempt = await play(pool, made_games[0], model, step_limit=7, repeats=1)
    answers = [step.observation for step in attempt.steps]
    assert answers[0].startswith("You arrive")
    assert answers[1:] == ["Nothing happens."] * 2


@pytest.mark.anyio
async def test_admissible_commands_are_shown_when_asked_for(made_games):
    for shown in (True, False):
        model = ScriptedModel(["look"] * 2)
        async with EnginePool(1) as pool:
            _, attempt = await play(pool, made_games[0], model, step_limit=2, show_commands=shown)
        last = model.calls[-1].messages
        assert (COMMANDS_NOTE in last[-1].content) == shown
        assert ("go to " in last[-1].content) == shown
        assert not any(COMMANDS_NOTE in m.content for m in last[:-1])
        assert not any(COMMANDS_NOTE in step.observation for step in attempt.steps)


@pytest.mark.anyio
async def test_either_dialect_wins_a_game_of_either(made_games):
    game = next(game for game in made_games if game.kind == "pick_and_place_simple")
    plan = json.loads(game.path.read_text())["walkthrough"]
    written = [re.sub(r"move (\w+ \d+) to (\w+ \d+)", r"put \1 in \2", command) for command in plan]
    assert written != plan
    async with EnginePool(1) as pool:
        for path, script, dialect in ((game.path, written, "move"), (older(game.path), plan, "put")):
            played = replace(game, path=path)
            assert dialect_of(played) == dialect
            model = ScriptedModel(script)
            task, attempt = await play(pool, played, model)
            assert attempt.metadata["won"] is True
            assert task.metadata == {DIALECT: dialect}
            assert examples(game.kind, dialect)[0] in model.calls[0].messages[0].content
            assert not any("loc " in m.content for m in model.calls[-1].messages[1:])


def test_genuine_games_are_of_the_older_dialect(genuine_games):
    assert {dialect_of(game) for game in genuine_games[:5]} == {"put"}


def test_the_memory_holds_the_last_three_reflections(made_games, made_folder, tmp_path):
    out = tmp_path / "out"
    arguments = ["--dry-run", "--memory", "last3", "--count", "1", "--trials", "5", "--step-limit", "1"]
    where = ["--made-games", str(made_folder), "--embedder", "hashing", "--out", str(out)]
    result = CliRunner().invoke(alfworld, [*arguments, *where])
    assert result.exit_code == 0, result.output
    assert "Model calls: " in result.output
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    tried = [row for row in rows if row["kind"] == "tried"]
    assert [len(row["recalled"]) for row in tried] == [0, 1, 2, 3, 3]
    assert all(row["interrupted"] == "max_turns" and row["steps"] == 1 for row in tried)
    config = (out / "config.json").read_text()
    assert '"reflexion@3"' in config
    assert json.loads(config)["repeats"] == 3
    assert json.loads(config)["player"] == "dry-run"
    assert json.loads(config)["free_thoughts"] is False
    assert "1 game: at most 5 tries, tokens unknown" in result.stderr


def test_repeats_below_one_are_refused():
    with pytest.raises(ConfigurationError, match="repeats"):
        GameAgent(EnginePool(1), {}, lambda t, s: None, step_limit=1, repeats=0)
