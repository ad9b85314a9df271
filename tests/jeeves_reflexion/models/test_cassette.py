"""Cassettes as files: their lines, torn ends, killed and concurrent writers."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion.errors import ConfigurationError, ModelResponseError
from jeeves_reflexion.models import Cassette, Exchange, RecordedError
from jeeves_reflexion.models.cassette import from_line, key_of, request_of, to_line
from jeeves_reflexion.protocols import Completion, Message, Sampling, ToolCall, ToolSpec
from jeeves_reflexion.types import Usage

SECRET = "sk-proj-" + "abcdEFGH1234" * 4


def exchange(text="fine", asked="what?", **more):
    return Exchange("m", Completion(text), request_of("m", [Message("user", asked)], (), None, None), **more)


def appended(path, *texts):
    Cassette(path).append([exchange(text) for text in texts])


def texts(path):
    return [each.answer.text for each in Cassette(path).exchanges()]


# Words alone: what redaction takes out of free text has tests of its own, and a lone surrogate can't be kept.
_WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Nd"]), max_size=12).filter(
    lambda text: "@" not in text and ":" not in text
)
_USAGE = st.builds(
    Usage,
    calls=st.integers(0, 9),
    input_tokens=st.integers(0, 10**9),
    output_tokens=st.integers(0, 10**9),
    cost_usd=st.none() | st.floats(0, 100),
    unreported=st.integers(0, 9),
)
_COMPLETIONS = st.builds(
    Completion,
    text=_WORDS,
    tool_calls=st.lists(st.builds(ToolCall, id=_WORDS, name=_WORDS, arguments=_WORDS), max_size=2).map(tuple),
    usage=_USAGE,
    model=_WORDS,
    finish_reason=_WORDS,
)
_ERRORS = st.builds(
    RecordedError,
    error=st.sampled_from(
        ["ModelError", "ModelTimeoutError", "ModelConnectionError", "ModelResponseError", "ModelRequestError"]
    ),
    message=_WORDS,
    status=st.none() | st.integers(100, 599),
    said=_WORDS,
    native=st.booleans(),
)
_REQUESTS = st.builds(
    request_of,
    _WORDS,
    st.lists(st.builds(Message, st.sampled_from(["system", "user", "assistant"]), _WORDS), max_size=3),
    st.lists(st.builds(ToolSpec, _WORDS, _WORDS, st.just({"type": "object"})), max_size=2),
    st.none() | st.dictionaries(_WORDS, st.integers() | _WORDS, max_size=2),
    st.none()
    | st.builds(
        Sampling,
        temperature=st.none() | st.floats(0, 2),
        seed=st.none() | st.integers(0, 9),
        stop=st.lists(_WORDS, max_size=2).map(tuple),
    ),
)


@settings(deadline=None, max_examples=50)
@given(
    st.builds(
        Exchange,
        model=_WORDS,
        answer=_COMPLETIONS | _ERRORS,
        request=st.none() | _REQUESTS,
        at=_WORDS,
        native=st.booleans(),
        seconds=st.floats(0, 100),
        recorded=st.floats(0, 1e10),
    )
)
def test_a_line_holds_an_exchange_whole(given):
    line = to_line(given)
    read = from_line(line)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert to_line(read) == line
    assert replace(read, request=None) == replace(given, request=None)
    if given.request is not None:
        assert key_of(read.request) == key_of(given.request)


@settings(deadline=None)
@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_can_be_recorded_and_its_line_read(asked, said):
    line = to_line(exchange(said, asked))
    assert to_line(from_line(line)) == line
    json.loads(line)


def test_secrets_do_not_reach_a_line():
    request = request_of(
        "m",
        [
            Message("user", f"use {SECRET}"),
            Message("assistant", "", tool_calls=(ToolCall("1", "login", f'{{"key": "{SECRET}"}}'),)),
        ],
        [ToolSpec("login", SECRET, {"type": "object", "default": {"api_key": "hunter2"}})],
        {"const": SECRET},
        Sampling(stop=(SECRET,)),
    )
    answer = Completion(f"it is {SECRET}", tool_calls=(ToolCall("2", "say", f'"{SECRET}"'),))
    failed = RecordedError("ModelResponseError", f"bad key {SECRET}", 400, SECRET)
    for each in (answer, failed):
        line = to_line(Exchange("m", each, request)).decode()
        assert SECRET not in line
        assert "hunter2" not in line
        assert "[REDACTED:" in line


def test_requests_are_compared_without_their_secrets():
    def key(text):
        return key_of(request_of("m", [Message("user", text)], (), None, None))

    assert key(f"my key is {SECRET}") == key(f"my key is sk-proj-{'zyxwVUTS9876' * 4}")
    assert key(f"my key is {SECRET}") == key("my key is [REDACTED:api_key]")
    assert key("one") != key("two")


def test_an_error_is_raised_as_what_it_was():
    error = RecordedError("ModelResponseError", "no", 503, "busy").raised()
    assert isinstance(error, ModelResponseError)
    assert (str(error), error.status, error.said) == ("no", 503, "busy")


@table(
    ("line", "problem"),
    [
        (b'{"cassette": 2, "model": "m"}', "format 2, and this version reads format 1"),
        (b'{"cassette": true, "model": "m"}', "format True"),
        (b'{"model": "m"}', "not a recorded exchange"),
        (b"[1]", "not a recorded exchange"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b'{"cassette": 1, "model": "m", "answer": {"text": 3}}', "answer"),
        (b'{"cassette": 1, "answer": {"text": "fine"}}', "model: "),
    ],
)
def test_a_bad_line_in_the_middle_is_an_error_that_names_it(tmp_path, line, problem):
    path = tmp_path / "c.jsonl"
    path.write_bytes(to_line(exchange()) + line + b"\n" + to_line(exchange()))
    with pytest.raises(ConfigurationError, match="line 2") as caught:
        texts(path)
    assert problem in str(caught.value)


def test_a_line_cut_anywhere_is_ignored_and_the_next_writer_goes_on_behind_the_whole_ones(tmp_path, caplog):
    first, last = to_line(exchange("one")), to_line(exchange("zwei é drei"))
    for length in range(1, len(last)):
        path = tmp_path / f"{length}.jsonl"
        path.write_bytes(first + last[:length])
        whole = length == len(last) - 1  # all but the end of the line
        cassette = Cassette(path)
        caplog.clear()
        assert [each.answer.text for each in cassette.exchanges()] == ["one", *["zwei é drei"] * whole]
        assert ("unfinished" in caplog.text) is not whole
        if length % 16 == 0 or whole:
            appended(path, "next")
            assert texts(path) == ["one", *["zwei é drei"] * whole, "next"]
            assert path.read_bytes().endswith(b"\n")


def test_a_torn_line_longer_than_a_buffer_is_cut_off(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_bytes(to_line(exchange("one")) + b"x" * 200_000)
    appended(path, "two")
    assert texts(path) == ["one", "two"]


def test_a_file_of_this_user_alone_in_a_folder_that_is_made(tmp_path):
    path = tmp_path / "new" / "c.jsonl"
    appended(path, "one")
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(Cassette(tmp_path / "none.jsonl").exchanges()) == []


def test_a_place_that_cannot_be_written_is_an_error_that_names_it(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "c.jsonl"):
        with pytest.raises(ConfigurationError, match="can't be written"):
            appended(path, "one")
    with pytest.raises(ConfigurationError, match="can't be read"):
        texts(tmp_path)


_WRITER = """
import sys
from jeeves_reflexion.models import Cassette, Exchange
from jeeves_reflexion.protocols import Completion
cassette, who, count, size = Cassette(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
for number in range(count):
    cassette.append([Exchange("m", Completion(f"{who} {number} " + "x" * size), {"model": "m"})])
    print(number, flush=True)
"""


def _writer(path, who, count, size):
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path), who, str(count), str(size)],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_processes_that_write_at_once_lose_and_mix_nothing(tmp_path):
    path = tmp_path / "c.jsonl"
    writers = [_writer(path, who, 15, 5_000) for who in "abc"]
    for each in writers:
        each.communicate(timeout=60)
        assert each.returncode == 0
    read = [text.split()[:2] for text in texts(path)]
    assert len(read) == 45
    for who in "abc":
        assert [number for name, number in read if name == who] == [str(n) for n in range(15)]


def test_a_writer_killed_at_any_moment_loses_nothing_that_it_had_acknowledged(tmp_path):
    path = tmp_path / "c.jsonl"
    expected = 0
    for run in range(3):
        writer = _writer(path, str(run), 10_000, 100_000)
        for _ in range(3):
            writer.stdout.readline()
        time.sleep(0.003 * run)
        writer.send_signal(signal.SIGKILL)
        acknowledged = 3 + len(writer.communicate(timeout=60)[0].splitlines())
        numbers = [int(text.split()[1]) for text in texts(path) if text.split()[0] == str(run)]
        assert numbers == list(range(len(numbers)))
        assert acknowledged <= len(numbers) <= acknowledged + 1
        expected += len(numbers)
    appended(path, "last")
    assert len(texts(path)) == expected + 1


_FULL = """
import resource, signal, sys
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.models import Cassette, Exchange
from jeeves_reflexion.protocols import Completion
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
cassette = Cassette(sys.argv[1])
cassette.append([Exchange("m", Completion("small"))])
try:
    cassette.append([Exchange("m", Completion("x" * 8000))])
except ConfigurationError as error:
    print(error)
"""


def test_an_exchange_that_the_disk_has_no_room_for_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "c.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", _FULL, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert "can't be written, and an answer is not recorded" in done.stdout
    assert texts(path) == ["small"]
    assert path.read_bytes().endswith(b"\n")


def test_the_reader_of_lines_is_loaded_with_the_first_line():
    code = (
        "import sys; from jeeves_reflexion.models import Cassette, RecordedModel; "
        "sys.exit('pydantic.type_adapter' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
