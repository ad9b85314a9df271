from __future__ import annotations

import json
from collections import Counter

import pytest

from benchmarks.alfworld.failures import GameFileError
from benchmarks.alfworld.games import KINDS, load_games, read_game_data


def write_game(root, task="pick_and_place_simple-Mug-None-Desk-301", trial="trial_1", kind=KINDS[0], **data):
    folder = root / task / trial
    folder.mkdir(parents=True)
    grammar = '{"rhs": "Your task is to: put a mug in desk."}'
    game = {"pddl_domain": "d", "grammar": grammar, "pddl_problem": "p", "solvable": True, **data}
    (folder / "game.tw-pddl").write_text(json.dumps(game))
    (folder / "traj_data.json").write_text(json.dumps({"task_type": kind}))
    return folder / "game.tw-pddl"


def test_the_genuine_split_has_its_140_games(genuine_games):
    assert Counter(game.kind for game in genuine_games) == dict(
        zip(KINDS, (35, 13, 27, 16, 25, 24), strict=True)
    )
    assert len({game.id for game in genuine_games}) == 140
    assert genuine_games == sorted(genuine_games, key=lambda game: game.path)
    assert genuine_games[0].sentence == "look at alarmclock under the desklamp."


def test_games_that_alfworld_leaves_out_are_left_out(tmp_path):
    kept = write_game(tmp_path)
    write_game(tmp_path, trial="trial_2", solvable=False)
    write_game(tmp_path, trial="trial_3", solvable=None)
    write_game(tmp_path, task="pick_and_place_with_movable_recep-Pen-Mug-Desk-301")
    write_game(tmp_path, task="pick_cool_then_place_in_recep-AppleSliced-None-Desk-1")
    write_game(tmp_path, trial="trial_4", kind="pick_and_place_with_something_else")
    write_game(tmp_path, trial="trial_5").unlink()
    assert [game.path for game in load_games(tmp_path)] == [kept]


def test_a_damaged_file_is_named_with_its_place(tmp_path):
    path = write_game(tmp_path)
    path.write_text('{"pddl_domain": "d",\n  "grammar": oops}')
    with pytest.raises(GameFileError, match=r"game\.tw-pddl, line 2, column 14: .*download it again"):
        load_games(tmp_path)
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(GameFileError, match=r"game\.tw-pddl, byte 7: not UTF-8"):
        load_games(tmp_path)


@pytest.mark.parametrize(
    ("data", "said"), [({"grammar": None}, "'grammar'"), ({"grammar": "x"}, "Your task is to")]
)
def test_a_file_with_a_part_missing_is_named(tmp_path, data, said):
    write_game(tmp_path, **data)
    with pytest.raises(GameFileError, match=said):
        load_games(tmp_path)


def test_a_folder_without_games_is_an_error(tmp_path):
    with pytest.raises(GameFileError, match="holds no playable game"):
        load_games(tmp_path)
    with pytest.raises(GameFileError, match="is no folder"):
        load_games(tmp_path / "nowhere")


def test_of_a_file_only_what_the_engine_plays_is_read(tmp_path):
    path = write_game(tmp_path, walkthrough=["go to desk 1"])
    assert set(read_game_data(path)) == {"pddl_domain", "grammar", "pddl_problem"}
