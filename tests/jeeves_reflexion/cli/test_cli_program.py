"""The command as a whole: help, exit codes, pipes, terminals, benchmarks."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from importlib.metadata import EntryPoint
from pathlib import Path

import click
import pytest

from jeeves_reflexion import errors
from jeeves_reflexion.cli import bench as bench_module
from jeeves_reflexion.cli.failures import Interrupted, UnusableEndpointError, exit_code
from jeeves_reflexion.cli.program import program
from vectorstores import base

ROOT = Path(__file__).parents[3]


def test_help_loads_nothing_heavy():
    script = (
        "import sys\nfrom jeeves_reflexion.cli.program import program\n"
        "program(['--help'], standalone_mode=False)\n"
        "heavy = {'torch', 'faiss', 'numpy', 'httpx', 'anyio', 'rich', 'transformers', 'textworld'}\n"
        "sys.exit(f'loaded {heavy & set(sys.modules)}' if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Exit codes" in done.stdout


def test_the_package_is_run_as_the_command():
    words = [sys.executable, "-m", "jeeves_reflexion", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("jeeves-reflexion, version ")


def _helps(command, path):
    with click.Context(command, info_name=path) as ctx:
        yield path, command.get_help(ctx)
        for name in command.list_commands(ctx) if isinstance(command, click.Group) else ():
            yield from _helps(command.get_command(ctx, name), f"{path} {name}")


def test_every_help_speaks_of_an_address():
    found = dict(_helps(program, "jeeves-reflexion"))
    assert len(found) > 30
    ours = {path: told for path, told in found.items() if " bench " not in path}
    for path, told in ours.items():
        assert not re.search(r"\bplaces?\b", told), path
    assert {line.split()[0] for line in found["jeeves-reflexion"].split("Commands:")[1].splitlines() if line} >= {
        "run", "lessons", "notes", "bench", "workflow",
    }  # fmt: skip


def test_a_file_that_is_not_there_is_said_without_the_number_of_the_error(cli, tmp_path):
    for command in (
        ("bench", "hotpotqa", "--data", "nowhere.json"),
        ("workflow", "check", "nowhere.yaml"),
        ("workflow", "run", "nowhere.yaml", "--state", "@nowhere.json"),
    ):
        result = cli(*command)
        assert result.exit_code == 3, command
        assert result.stderr.count("\n") == 1
        assert "nowhere" in result.stderr
        assert "[Errno" not in result.stderr


def test_a_mistyped_command_is_told_which_was_meant(cli):
    for typed, meant in (("lesons", "lessons"), ("benchmark", "bench"), ("notse", "notes")):
        refused = cli(typed)
        assert refused.exit_code == 2
        assert f"No such command {typed!r}. Did you mean {meant!r}?" in refused.stderr
    assert "Did you mean" not in cli("xyzzy").stderr


def test_the_version_is_that_of_the_package(cli):
    import jeeves_reflexion

    assert jeeves_reflexion.__version__ in cli("--version").stdout


def test_help_and_docs_name_the_same_exit_codes(cli):
    shown = cli("--help").stdout
    documented = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    codes = re.findall(r"^\s+(\d+)\s{2,}", shown.split("Exit codes:")[1], re.MULTILINE)
    assert codes == ["0", "1", "2", "3", "4", "5", "130"]
    assert re.findall(r"^\| (\d+) \|", documented, re.MULTILINE) == codes


def test_each_kind_of_error_has_its_exit_code():
    for error, code in [
        (errors.ConfigurationError("x"), 3),
        (errors.MissingDependencyError("x", "faiss"), 3),
        (base.MissingDependencyError("x"), 3),
        (errors.ModelAuthError("x"), 3),
        (errors.ModelTimeoutError("x"), 4),
        (errors.ModelConnectionError("x"), 4),
        (errors.ModelResponseError("x"), 4),
        (errors.UnreadableReplyError("x"), 4),
        (errors.LessonStoreError("x"), 5),
        (base.EmbedderMismatchError("x"), 5),
        (UnusableEndpointError("x"), 3),
        (errors.BudgetExceededError("tokens", "x"), 1),
        (KeyboardInterrupt(), 130),
        (Interrupted("x"), 130),
    ]:
        assert exit_code(error) == code


def test_a_reader_that_leaves_early_is_no_error(fill, process):
    fill([("Boil an egg.", "Prick the egg before you boil it.")])
    listing = process("lessons", "list")
    assert listing.stdout is not None
    listing.stdout.close()  # before there is anything to read
    listing.stdout = None
    _, err = listing.communicate(timeout=60)
    assert err == ""
    assert listing.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_an_answer_that_can_not_be_written_is_an_error_in_one_line(fill, process):
    fill([("Boil an egg.", "Prick the egg before you boil it.")])
    for more in ((), ("--json",)):
        with Path("/dev/full").open("w") as full:
            _, err = process("lessons", "list", *more, stdout=full).communicate(timeout=60)
        assert err == "error: standard output: No space left on device\n"


# -- a terminal


def test_an_interrupt_at_a_question_is_one_and_a_no_is_none(fill, process, cli):
    ids = fill([("Name a capital.", "Name the city."), ("Name a river.", "Name the longest one.")])
    asking = process("lessons", "forget", *ids, stdin=subprocess.PIPE)
    said = ""
    while not said.endswith("]: "):
        more = asking.stderr.read(1)
        assert more, said
        said += more
    asking.send_signal(signal.SIGINT)
    _, said = asking.communicate(timeout=20)
    assert asking.returncode == 130, said
    assert "Traceback" not in said
    assert "interrupted: the command was stopped" in said
    for answer in ("n\n", ""):
        told = cli("lessons", "forget", *ids, stdin=answer)
        assert told.exit_code == 1, told.output
        assert "interrupted" not in told.output


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="the size of a pipe can't be set")
@pytest.mark.parametrize("words", [["list", "--all"], ["export", "-"]])
def test_an_interrupt_ends_a_list_that_is_being_written(words, fill, process):
    fill([(f"Boil egg {n}.", f"Prick egg {n} with the needle of drawer {n} first.") for n in range(60)])
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    listing = process("lessons", *words, stdout=writer)
    os.close(writer)
    with os.fdopen(reader) as read:
        deadline = time.monotonic() + 60
        while struct.unpack("i", fcntl.ioctl(reader, termios.FIONREAD, b"\0" * 4))[0] < 2000:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        listing.send_signal(signal.SIGINT)
        while _waits(listing.pid, signal.SIGINT):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        lines = read.readlines()
    assert listing.wait(60) == 130
    assert 0 < len(lines) < 60


def test_an_interrupt_ends_an_import_that_waits_for_its_file(process, tmp_path):
    pipe = tmp_path / "lessons.jsonl"
    os.mkfifo(pipe)
    waiting = process("lessons", "import", "--create", str(pipe))
    with pipe.open("wb"):  # it is open once the command reads it; nothing is ever written
        waiting.send_signal(signal.SIGINT)
        _, said = waiting.communicate(timeout=20)
    assert waiting.returncode == 130, said
    assert "interrupted: the command was stopped" in said


def _waits(process: int, number: int) -> bool:
    """Whether a signal has not reached the process yet."""
    pending = re.search(r"^ShdPnd:\s*(\w+)", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    return bool(pending and int(pending[1], 16) >> (number - 1) & 1)


def _on_a_terminal(*arguments: str, columns: int = 80, **environment: str) -> tuple[int, str]:
    """Run the command on a terminal of its own and return what it wrote there."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    words = [sys.executable, "-c", "from jeeves_reflexion.cli import main; main()", *arguments]
    settings = {**os.environ, "TERM": "xterm-256color", **environment}
    running = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, env=settings)
    os.close(slave)
    written = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        written += part
    os.close(master)
    return running.wait(timeout=60), written.decode()


def _plain(written: str) -> str:
    return re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", written).replace("\r", "")


def test_a_terminal_gets_lists_that_fit_and_no_colours_where_none_are_wanted(fill):
    ids = fill([("Put a clean mug on the desk.", "Wash the mug in the sink before you carry it " * 4)])
    code, written = _on_a_terminal("lessons", "list", NO_COLOR="1")
    lines = _plain(written).splitlines()
    assert code == 0
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", written), "no colours are wanted"
    assert lines[0].rstrip() == f"{ids[0][:8]}  2023-11-14  score 0.25  active"
    assert all(line.startswith("    ") for line in lines[1:])
    assert max(map(len, lines)) <= 80
    assert len(lines) > 2


def test_a_terminal_gets_colours(server, fill):
    server.answers = ["\x1b]0;owned\x07\x1b[2JParis"]
    arguments = [
        "run",
        "Capital of France?",
        "--model",
        "m",
        "--base-url",
        server.url,
        "--embedder",
        "hashing",
    ]
    code, coloured = _on_a_terminal(*arguments)
    assert code == 0
    assert "\x1b[32m" in coloured
    assert _plain(coloured).splitlines()[-1] == "Paris"
    assert "\x1b]0;" not in coloured
    assert "\x1b[2J" not in coloured


# -- benchmarks


@click.command("toy")
@click.option("--fail", is_flag=True)
def toy(*, fail: bool) -> None:
    """Play with a toy. It takes no time."""
    if fail:
        raise errors.LessonStoreError("the toy box is locked")
    click.echo("played")


NOT_A_COMMAND = 42


def _entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, bench_module.GROUP)


@pytest.fixture
def benchmarks(monkeypatch, tmp_path):
    (tmp_path / "bench_without_extra.py").write_text(
        "from jeeves_reflexion import MissingDependencyError as Missing\nraise Missing('the toy', 'toys')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = [
        _entry("toy", f"{__name__}:toy"),
        _entry("poor", "bench_without_extra:command"),
        _entry("broken", "no_such_module_anywhere:command"),
        _entry("odd", f"{__name__}:NOT_A_COMMAND"),
    ]
    monkeypatch.setattr(
        bench_module, "entry_points", lambda *, group: found if group == bench_module.GROUP else []
    )


@pytest.mark.usefixtures("benchmarks")
def test_benchmarks_come_from_entry_points(cli):
    assert cli("bench", "toy").stdout == "played\n"
    assert "--fail" in cli("bench", "toy", "--help").stdout
    shown = cli("bench", "--help")
    assert shown.exit_code == 0
    assert "Play with a toy." in shown.stdout
    assert "the toy needs an optional package" in shown.stdout


@pytest.mark.usefixtures("benchmarks")
def test_a_benchmarks_errors_are_reported_like_ours(cli):
    result = cli("bench", "toy", "--fail")
    assert (result.exit_code, result.stderr) == (5, "error: the toy box is locked\n")


@pytest.mark.usefixtures("benchmarks")
def test_a_benchmark_that_cannot_be_run(cli):
    for name, code, said in [
        ("poor", 3, 'pip install "jeeves-reflexion[toys]"'),
        ("broken", 3, "no_such_module_anywhere"),
        ("odd", 3, "not a click command"),
        ("nothing", 2, "there is no benchmark 'nothing'; installed: broken, odd, poor, toy"),
    ]:
        result = cli("bench", name)
        assert result.exit_code == code
        assert said in result.stderr
        assert "Traceback" not in result.stderr


def test_alfworld_is_listed(cli):
    assert "alfworld" in cli("bench", "--help").stdout
