"""What a worker process lets out, asked over its raw pipe."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.engine

# Names of facts and ids, as they stand in the file: an agent's texts have none of them.
INSIDE = re.compile(
    r"_bar_|inreceptacle|atlocation|cancontain|holdsany|agent1|walkthrough|policy|facts", re.IGNORECASE
)


class Worker:
    """A worker that is asked one thing at a time."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.alfworld.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        self.lines = []

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        self.lines.append(self.process.stdout.readline().decode())
        return json.loads(self.lines[-1])


@pytest.fixture
def worker(engine):
    worker = Worker()
    with worker.process:
        yield worker
        worker.process.stdin.close()
        assert worker.process.wait(timeout=60) == 0


def test_nothing_of_a_game_but_texts_and_commands_crosses_the_pipe(worker, made_games):
    game = made_games[0]
    stored = json.loads(game.path.read_text())
    plan = stored["walkthrough"]
    replies = [worker.ask(open=str(game.path))]
    for command in plan[:-1]:
        assert command in replies[-1]["admissible"]
        replies.append(worker.ask(step=command))
    questions = ("look", "inventory", "help", "walkthrough", "facts", "policy_commands")
    replies.extend(worker.ask(step=command) for command in questions)
    for reply in replies:
        assert set(reply) == {"text", "won", "admissible"}
        assert reply["won"] is False
        assert reply["admissible"] == sorted(set(reply["admissible"]))
    assert not INSIDE.search("".join(worker.lines))
    # The first look at the room does not say where the thing is.
    taken = next(command for command in plan if command.startswith("take ")).split(" from ")[0]
    assert taken.removeprefix("take ") not in replies[0]["text"]
    assert worker.ask(step=plan[-1])["won"] is True


def test_a_request_before_a_game_is_open_is_refused(worker):
    assert "open one first" in worker.ask(step="look")["error"]


def test_a_worker_ends_with_its_input_and_says_nothing_more(engine):
    worker = Worker()
    with worker.process:
        worker.process.stdin.close()
        assert worker.process.stdout.read() == b""
        assert worker.process.wait(timeout=60) == 0
