"""The command, from end to end: offline, and with a model behind a real endpoint."""

import json
from collections.abc import Coroutine, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import pytest
from click.testing import CliRunner
from offline_model import OfflineModel

from benchmarks.refinement.command import refinement
from benchmarks.refinement.figures import BOUNDS
from benchmarks.refinement.rates import Rates
from benchmarks.refinement.real import errors_of
from benchmarks.refinement.record import Judged, Record
from benchmarks.refinement.tasks import keys, problem_of
from jeeves_reflexion import Completion, ConfigurationError, ExperimentError, Message, Sampling

TINY = ["--tasks", "3", "--seeds", "0", "--grid", "0,0.3/0.1"]


def invoke(out: Path, *arguments: str):
    return CliRunner().invoke(refinement, [*arguments, "--out", str(out)])


def test_a_tiny_measurement_writes_its_page_and_its_figures(tmp_path):
    done = invoke(tmp_path, *TINY, "--workers", "1")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "refinement.md").read_text()
    assert page in done.stdout
    assert "$" not in page
    assert "jeeves-reflexion bench refinement --tasks 3 --seeds 0 --max-iterations 3 --grid 0,0.3/0.1" in page
    found = json.loads((tmp_path / "refinement.json").read_text())
    cells = found["grids"]["each_criterion_vetoes"]["cells"]
    assert [(cell["judge"], cell["reviser"]) for cell in cells] == [(0.0, 0.1), (0.3, 0.1)]
    assert all(cell["figures"][bound.figure]["n"] >= 3 for cell in cells for bound in BOUNDS)
    assert set(found["versions"]) == {"jeeves-reflexion", "python", "machine"}
    assert "grid, each criterion vetoes: 2 of 2" in done.stderr


def test_the_figures_are_the_same_in_two_processes(tmp_path):
    for workers in ("1", "2"):
        assert invoke(tmp_path / workers, *TINY, "--workers", workers).exit_code == 0
    one, two = (json.loads((tmp_path / workers / "refinement.json").read_text()) for workers in ("1", "2"))
    for found in (one, two):
        del found["seconds"], found["setting"]["workers"]
    assert one == two


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--grid", "0,2"], "no list of errors"),
        (["--grid", "a"], "no list of errors"),
        (["--seeds", "x"], "no list of whole numbers"),
        (["--tasks", "1"], "--tasks"),
    ],
)
def test_wrong_options_are_refused(tmp_path, arguments, said):
    done = invoke(tmp_path, *arguments)
    assert done.exit_code == 2
    assert said in done.stderr


def test_an_address_without_a_model_is_refused(tmp_path):
    done = invoke(tmp_path, "--base-url", "http://127.0.0.1:9/v1")
    assert isinstance(done.exception, ConfigurationError)
    assert not list(tmp_path.iterdir())


def at_once(answer: Coroutine[Any, Any, Completion]) -> Completion:
    """Return what a coroutine that waits for nothing comes to; an event loop for each of hundreds takes seconds."""
    with pytest.raises(StopIteration) as done:
        answer.send(None)
    reply: Completion = done.value.value
    return reply


class Endpoint(ThreadingHTTPServer):
    """An OpenAI-compatible endpoint behind which the offline model writes, judges and revises."""

    def __init__(self, rates: Rates) -> None:
        super().__init__(("127.0.0.1", 0), Chat)
        problems = [problem_of(key) for key in keys(6, (0,))]
        self.models = {problem.prompt: OfflineModel(problem, rates) for problem in problems}
        self.refuse = ""
        self.asked: list[dict] = []
        self.lock = Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Chat(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = [message["content"] for message in body["messages"]]
        prompt = next(prompt for prompt in self.server.models if any(prompt in one for one in said))
        with self.server.lock:
            self.server.asked.append(body)
            if self.server.refuse and self.server.refuse in prompt:
                self.send(400, {"error": {"message": "this task is not for me"}})
                return
            schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
            messages = [Message(one["role"], one["content"]) for one in body["messages"]]
            model = self.server.models[prompt]
            reply = at_once(model.complete(messages, schema=schema, sampling=Sampling(seed=body.get("seed"))))
        usage = {"prompt_tokens": reply.usage.input_tokens, "completion_tokens": reply.usage.output_tokens}
        choice = {"message": {"role": "assistant", "content": reply.text}, "finish_reason": "stop"}
        self.send(200, {"model": body["model"], "choices": [choice], "usage": usage})

    def send(self, status: int, answer: dict) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(Rates(right=0.5, noise=0.0)) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def with_model(out: Path, endpoint: Endpoint, *more: str):
    where = ["--model", "tiny/one", "--base-url", endpoint.address, "--workers", "2"]
    return invoke(out, *where, "--tasks", "6", *more)


def test_a_model_behind_an_endpoint_is_measured_by_the_oracle(endpoint, tmp_path):
    done = with_model(tmp_path, endpoint)
    assert done.exit_code == 0, (done.output, done.exception)
    found = json.loads((tmp_path / "refinement-tiny-one.json").read_text())
    # It errs only in writing, and the figures must say so.
    assert [found["errors"][name]["successes"] for name in ("miss", "alarm", "fail", "breaks")] == [0] * 4
    assert found["reasons"] == {"quality_met": 6}
    assert [found["figures"][bound.figure]["n"] for bound in BOUNDS if bound.id != "S03"] == [6] * 4
    assert found["figures"]["satisfactory"]["successes"] == 6
    assert found["tokens_per_run"] > 1000
    page = (tmp_path / "refinement-tiny-one.md").read_text()
    assert "open: too few runs to say" in page
    assert "$" not in page
    assert endpoint.address not in page + json.dumps(found)


def test_another_model_may_judge(endpoint, tmp_path):
    done = with_model(tmp_path, endpoint, "--reflection-model", "judge")
    assert done.exit_code == 0, done.output
    judged = {"response_format" in body for body in endpoint.asked if body["model"] == "judge"}
    written = {"response_format" in body for body in endpoint.asked if body["model"] == "tiny/one"}
    assert (judged, written) == ({True}, {False})
    assert (tmp_path / "refinement-tiny-one-judged-by-judge.md").exists()


def test_a_run_that_breaks_off_is_left_out_and_told(endpoint, tmp_path):
    endpoint.refuse = "notice"
    done = with_model(tmp_path, endpoint, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (sum(found["reasons"].values()), len(found["failures"])) == (4, 2)
    assert "this task is not for me" in done.stderr


def test_nobody_at_the_endpoint_is_no_result(endpoint, tmp_path):
    endpoint.refuse = "Requirements"
    done = with_model(tmp_path, endpoint)
    assert isinstance(done.exception, ExperimentError)
    assert not list(tmp_path.iterdir())


def test_the_errors_of_a_model_are_counted_as_the_rates_are_meant():
    first = Judged((True, False, False, True), 0.5, frozenset({0, 1}))
    second = Judged((True, True, False, False), 0.5, frozenset(), base=1)
    found = errors_of([Record("p", (first, second), 1, "max_iterations")])
    shares = {name: (share.successes, share.n) for name, share in found.items() if share}
    assert shares == {"right": (2, 4), "miss": (3, 4), "alarm": (1, 4), "fail": (0, 1), "breaks": (1, 1)}
