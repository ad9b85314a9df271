"""A block of lessons in a file that agents read: the best first, bounded, and a person's words around it untouched."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from jeeves_reflexion import Lift, Provenance
from jeeves_reflexion.cli.program import program
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.lessons.agents_file import BEGIN, END, block_of, ranked, with_block
from jeeves_reflexion.types import Lesson

ONE = Lesson("one", "Open the drawer first.", "t", "Find a pencil", Provenance("r", 0, None))
BLOCK = block_of([ONE])[0]
around = st.binary(max_size=200).filter(lambda data: b"lessons:" not in data.lower())


@given(around, around)
@example(b"\r", b"")
@example(b"", b"\r")
def test_what_stands_around_the_block_stays_byte_for_byte(before, behind):
    end = b"\r\n" if b"\r\n" in before + behind or before.endswith(b"\r") else b"\n"
    placed = before + end + BLOCK.encode().replace(b"\n", end) + end + behind
    assert with_block(placed, BLOCK) == placed, "nothing changed"
    other = block_of([replace(ONE, text="Close it.")])[0]
    assert with_block(placed, other) == before + end + other.encode().replace(b"\n", end) + end + behind
    added = with_block(before, BLOCK)
    assert added.startswith(before)
    assert with_block(added, BLOCK) == added


@pytest.mark.parametrize(
    "text",
    [
        BEGIN,
        END,
        f"{END}\n{BEGIN}",
        f"{BLOCK}\n{BLOCK}",
        f"{BEGIN}\n{BLOCK}",
        f"- {BEGIN}\nx\n{END}",
        BLOCK.replace("begin", "Begin"),
        BLOCK.replace("lost -->", "lost"),
        BLOCK.replace("<!-- jeeves-reflexion lessons: end", "<!-- jeeves-reflexion lessons: en"),
    ],
)
def test_marks_that_are_damaged_or_doubled_are_an_error(text):
    with pytest.raises(ConfigurationError, match="repair them, or remove them all"):
        with_block(f"# Mine\n{text}\n".encode(), BLOCK)


class Known:
    """Credits that are given."""

    def __init__(self, lifts):
        self.lifts = lifts

    def lift(self, lesson_id):
        return self.lifts.get(lesson_id, Lift())


def test_the_best_come_first_and_no_lesson_breaks_the_block():
    names = ("plain", "harmful", "helpful", "retired", "often")
    lessons = {each: replace(ONE, id=each, text=f"Do the {each} thing.") for each in names}
    lessons["retired"] = replace(lessons["retired"], state="retired")
    lessons["often"] = replace(lessons["often"], support=5)
    known = Known({"helpful": Lift(0.3, 0.1, 0.5, 9, 9), "harmful": Lift(-0.3, -0.5, -0.1, 9, 9)})
    found = ranked(list(lessons.values()), known)
    assert [each.id for each in found] == ["helpful", "often", "plain"]
    whole, number = block_of(found)
    assert number == 3
    for most in range(len(block_of([])[0]), len(whole) + 1):
        block, number = block_of(found, most)
        assert len(block) <= most
        assert [f"the {each.id} thing" in block for each in found] == [True] * number + [False] * (3 - number)
    with pytest.raises(ConfigurationError, match="takes at least"):
        block_of(found, 10)
    for trust in ("own", "imported"):
        for words in (f"{END} {BEGIN}", "jeeves-reflexion lessons: end", "Jeeves-Reflexion LESSONS: x"):
            attack = block_of([replace(ONE, text=f"Do it. {words}", trust=trust)])[0]
            assert with_block(with_block(b"# Mine\n", attack), BLOCK) == with_block(b"# Mine\n", BLOCK)
    assert "no lessons yet" not in block_of([replace(ONE, text="Do it. " * 99)], 300)[0]


def test_the_command_keeps_the_block_of_a_file(tmp_path):
    file, place = tmp_path / "AGENTS.md", ["--lessons", str(tmp_path / "lessons"), "--json"]

    def cli(*arguments):
        done = CliRunner().invoke(program, ["lessons", *arguments, *place])
        return done.exit_code, json.loads(done.stdout) if done.exit_code == 0 else done.stdout

    words = "Open the drawer first."
    cli("add", words, "--task", "Find a pencil", "--create", "--embedder", "hashing")
    file.write_bytes(b"# Mine\r\n\xff stays\r\n")
    file.chmod(0o640)
    assert cli("export", "--to", str(file))[1] == {
        "address": str(tmp_path / "lessons"), "namespace": "default", "to": str(file), "exported": 1, "active": 1,
        "changed": True,
    }  # fmt: skip
    data = file.read_bytes()
    assert data.startswith(b"# Mine\r\n\xff stays\r\n\r\n<!--")
    assert words.encode() in data
    assert b"\n" not in data.replace(b"\r\n", b"")
    assert file.stat().st_mode & 0o777 == 0o640
    assert cli("export", "--to", str(file))[1]["changed"] is False
    file.write_bytes(data + END.encode())
    code, told = cli("export", "--to", str(file))
    assert (code, "repair them" in told) == (3, True)
    assert file.read_bytes() == data + END.encode()
    assert cli("export")[0] == 2
    assert cli("export", "--to", str(file), "lessons.jsonl")[0] == 2
