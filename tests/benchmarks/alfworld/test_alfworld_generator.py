from __future__ import annotations

import hashlib
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.alfworld import generator
from benchmarks.alfworld.errands import choose_errand
from benchmarks.alfworld.failures import GenerationError
from benchmarks.alfworld.games import KINDS, load_games
from benchmarks.alfworld.generator import MIX, generate_games, kinds
from benchmarks.alfworld.placement import place_things
from benchmarks.alfworld.requirements import alfworld_files
from benchmarks.alfworld.rooms import build_rooms
from benchmarks.alfworld.wheel import read_wheel
from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError

# A whole run on the other event loop; and the texts of games alone, whose proof is what takes time.
MAKE = """
import sys, anyio
from benchmarks.alfworld.generator import generate_games
async def main():
    await generate_games(sys.argv[1], count=2, seed=0, workers=1)
anyio.run(main, backend="trio")
"""
DRAFT = """
import json, pathlib, sys
from benchmarks.alfworld.generator import _Maker, kinds
maker = _Maker(pathlib.Path(sys.argv[1]), 0)
drafts = [maker._draft(number, kind, 0) for number, kind in enumerate(kinds(134))]
json.dump({str(draft.folder): [draft.game, draft.trajectory] for draft in drafts}, sys.stdout)
"""


def digests(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def wheel():
    try:
        alfworld_files()
    except MissingDependencyError as error:
        pytest.skip(str(error))
    return read_wheel()


@pytest.fixture(scope="module")
def rooms(wheel):
    return build_rooms(wheel)


def test_the_mix_is_that_of_valid_unseen():
    assert Counter(kinds(134)) == MIX
    assert sum(MIX.values()) == 134
    assert set(kinds(6)) == set(KINDS)


@given(st.integers(1, 300))
def test_shorter_mixes_are_the_beginning_of_longer_ones(count):
    sequence = kinds(count)
    assert kinds(300)[:count] == sequence
    for kind, share in MIX.items():
        assert abs(sequence.count(kind) - count * share / 134) < 1.5


def test_rooms_are_places_to_search(rooms):
    assert {room.kind for room in rooms} == {"Kitchen", "LivingRoom", "Bedroom", "Bathroom"}
    for room in rooms:
        locations = [receptacle.location for receptacle in room.receptacles]
        assert len({room.start, *locations}) == len(locations) + 1
        assert len({receptacle.id for receptacle in room.receptacles}) == len(locations) >= 7


@given(seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS))
@settings(deadline=None, max_examples=60)
def test_things_lie_where_they_may_and_targets_not_at_their_goal(wheel, rooms, seed, kind):
    rng = random.Random(seed)
    errand = choose_errand(kind, rooms, wheel, rng)
    if errand is None:
        return
    things = place_things(
        errand.room,
        wheel,
        rng,
        target=errand.object_type,
        at_least=errand.things_needed,
        not_in=errand.receptacle_type,
    )
    targets = [thing for thing in things if thing.type == errand.object_type]
    assert len(targets) >= errand.things_needed
    assert all(thing.place.type != errand.receptacle_type for thing in targets)
    assert all(
        thing.type in wheel.contents[thing.place.type]
        for thing in things
        if thing.type not in wheel.treatable["Toggleable"]
    )
    assert (errand.lamp_type in {thing.type for thing in things}) == (kind == "look_at_obj_in_light")
    assert errand.object_type.lower() in errand.sentence


@pytest.mark.engine
def test_all_six_kinds_are_made_and_read_back(made_games, made_folder):
    assert {game.kind for game in made_games} == set(KINDS)
    assert sorted(made_games, key=lambda game: game.path) == load_games(made_folder)
    for game in made_games:
        assert json.loads(game.path.read_text())["solvable"] is True


def run_with_hash_seed(seed, script, folder):
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    return subprocess.run(
        [sys.executable, "-c", script, str(folder)], check=True, env=environment, stdout=subprocess.PIPE
    ).stdout


@pytest.mark.engine
def test_the_same_seed_makes_the_same_files(made_games, made_folder, tmp_path):
    run_with_hash_seed("1", MAKE, tmp_path)
    made = digests(tmp_path)
    assert len(made) == 4
    # Fewer games than the folder that they are compared with has.
    assert made.items() <= digests(made_folder).items()


@pytest.mark.engine
def test_no_text_of_a_game_depends_on_the_interpreter(made_games, made_folder):
    one = json.loads(run_with_hash_seed("2", DRAFT, made_folder))
    maker = generator._Maker(made_folder, 0)  # this process has another seed
    drafts = [maker._draft(number, kind, 0) for number, kind in enumerate(kinds(134))]
    assert one == {str(draft.folder): [draft.game, draft.trajectory] for draft in drafts}
    assert len(one) == 134
    for game in made_games:
        text, trajectory = one[str(game.path.parent)]
        assert game.path.read_text() == text
        assert game.path.with_name("traj_data.json").read_text() == trajectory


def test_another_seed_makes_other_games(wheel, tmp_path):
    games, others = (
        [maker._draft(number, kind, 0) for number, kind in enumerate(kinds(12))]
        for maker in (generator._Maker(tmp_path, seed) for seed in (0, 1))
    )
    assert [draft.errand.kind for draft in games] == [draft.errand.kind for draft in others]

    def problems(drafts):
        return {re.sub(r"S\d_", "", json.loads(draft.game)["pddl_problem"]) for draft in drafts}

    assert len(problems(games) | problems(others)) == 24


@pytest.mark.engine
@pytest.mark.anyio
async def test_a_finished_folder_is_used_as_it_is(made_games, made_folder, monkeypatch):
    def no_pool(*_):
        raise AssertionError("no worker is needed")

    monkeypatch.setattr(generator.EnginePool, "episode", no_pool)
    assert await generate_games(made_folder, count=len(made_games), seed=0) == made_games
    assert await generate_games(made_folder, count=3, seed=0) == made_games[:3]


@pytest.mark.engine
@pytest.mark.anyio
async def test_an_interrupted_run_is_taken_up_again(made_games, tmp_path):
    progress = []

    def stop_early(done, wanted):
        progress.append((done, wanted))
        if done == 1:
            scope.cancel()

    with anyio.CancelScope() as scope:
        await generate_games(tmp_path, count=2, seed=0, workers=1, progress=stop_early)
    assert scope.cancelled_caught
    assert not list(tmp_path.rglob("*unproved*"))
    kept = digests(tmp_path)
    assert len([name for name in kept if name.endswith("game.tw-pddl")]) == 1
    games = await generate_games(tmp_path, count=2, seed=0, workers=1, progress=lambda *_: None)
    assert [game.id for game in games] == [game.id for game in made_games[:2]]
    assert kept.items() <= digests(tmp_path).items()
    games[1].path.write_text("{}")
    assert await generate_games(tmp_path, count=2, seed=0, workers=1) == games
    assert games[1].path.read_bytes() == made_games[1].path.read_bytes()


@pytest.mark.engine
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_game_that_its_plan_does_not_win_is_not_kept(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(generator, "plan_errand", lambda *_: ["look", "inventory"])
    monkeypatch.setattr(generator, "_TRIES", 2)
    with pytest.raises(GenerationError, match=r"game 0 of seed 1 .*could not be won by its plan in 2 tries"):
        await generate_games(tmp_path, count=1, seed=1, workers=1)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.anyio
async def test_a_count_that_makes_no_sense_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="count must be at least 1"):
        await generate_games(tmp_path, count=0)
