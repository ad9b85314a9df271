"""A framework's process: what it asks, what it says, and how it can fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.peers.arms import ARMS, PEER, Arm
from benchmarks.peers.child import Child, ChildError
from benchmarks.peers.play import Sides
from benchmarks.peers.workarounds import ROWS, Row, show_all

pytestmark = pytest.mark.anyio
SidesFactory = Callable[..., Sides]
A_PEER = next(arm for arm in ARMS if arm.side == PEER)


async def test_a_command_is_answered_and_what_is_printed_is_no_answer(
    fake_sides: SidesFactory, anyio_backend: str
) -> None:
    async with fake_sides().child(A_PEER) as child:
        assert child.ready["version"] == "0.0"
        done = await child.do("probe", name="this")
    assert done == {"seen": "this | was seen", "holds": True}


async def test_a_command_that_fails_says_why_and_the_process_goes_on(
    fake_sides: SidesFactory, anyio_backend: str
) -> None:
    async with fake_sides().child(A_PEER) as child:
        with pytest.raises(ChildError, match="ValueError: no such thing"):
            await child.do("probe", name="raises")
        assert (await child.do("probe", name="this"))["holds"]


async def test_a_process_that_ends_is_an_error(fake_sides: SidesFactory, anyio_backend: str) -> None:
    async with fake_sides().child(A_PEER) as child:
        with pytest.raises(ChildError, match="SystemExit: 3"):
            await child.do("probe", name="dies")
        with pytest.raises(ChildError, match=r"ended(.|\n)*the last words"):
            await child.do("probe", name="this")


async def test_a_process_that_hangs_is_an_error(fake_sides: SidesFactory, anyio_backend: str) -> None:
    sides = fake_sides()
    async with Child(sides.peer_module, python=sides.peer_python, timeout=20.0) as child:
        child._timeout = 0.2
        with pytest.raises(ChildError, match=r"no answer in 0\.2 s"):
            await child.do("probe", name="hangs")
        with pytest.raises(ChildError, match="failed in the middle of a command"):
            await child.do("probe", name="this")


async def test_a_process_whose_question_is_not_answered_is_not_asked_again(
    fake_sides: SidesFactory, anyio_backend: str
) -> None:
    async with fake_sides().child(A_PEER) as child:
        with pytest.raises(ChildError, match="'never answered' was asked"):
            await child.do("probe", name="asks")
        with pytest.raises(ChildError, match="failed in the middle of a command"):
            await child.do("probe", name="this")


async def test_an_interpreter_that_is_none_is_an_error(tmp_path: Path, anyio_backend: str) -> None:
    with pytest.raises(ChildError, match="can't be started"):
        async with Child("fake_peer", python=tmp_path / "python"):
            pass


async def test_an_interpreter_without_the_peer_is_an_error(
    fake_sides: SidesFactory, anyio_backend: str
) -> None:
    sides = Sides(fake_sides().peer_python, 1)
    with pytest.raises(ChildError, match="No module named 'jeevesagent'"):
        async with sides.child(A_PEER):
            pass


async def test_a_probe_that_sees_nothing_or_fails_is_said_to_be_so(
    fake_sides: SidesFactory, anyio_backend: str
) -> None:
    rows = [Row(name, "what", "here") for name in ("there", "gone", "raises")]
    there, gone, failed = await show_all(fake_sides(), rows)
    assert (there.holds, gone.holds, failed.holds) == (True, False, False)
    assert "no such thing" in failed.seen


async def test_every_row_is_true_of_the_real_peer(real_sides: SidesFactory) -> None:
    shown = await show_all(real_sides())
    assert [each.row.probe for each in shown if not each.holds] == []
    assert len(shown) == len(ROWS)


def test_arms_have_names_of_their_own() -> None:
    titles = [arm.title for arm in ARMS]
    assert len(set(titles)) == len(titles)
    assert Arm("a", PEER, "", "store").title == "jeevesagent: a"
