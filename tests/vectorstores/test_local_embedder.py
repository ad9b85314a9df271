"""What embedders of this machine do with many callers, whichever library runs the model."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import numpy as np
import pytest
from small_bert import HIDDEN, make_bert

from vectorstores import EmbeddingError
from vectorstores.embedders import model_folder
from vectorstores.embedders.local import LocalEmbedder

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """One event loop: test_embedder_contract.py runs every embedder on both."""
    return "asyncio"


class Fake(LocalEmbedder):
    """Notes what it is asked together; a row says the length of its text."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(make_bert(folder)))
        self.loads: list[threading.Thread] = []
        self.batches: list[list[str]] = []
        self.pause = 0.0
        self.go = threading.Event()
        self.go.set()
        self.load_errors: list[Exception] = []

    def _load(self, folder: Path) -> Callable[[Sequence[str]], np.ndarray]:
        self.loads.append(threading.current_thread())
        self._wait()
        if self.load_errors:
            raise self.load_errors.pop()
        return self._encode

    def _encode(self, texts: Sequence[str]) -> np.ndarray:
        self.batches.append(list(texts))
        self._wait()
        if "bad" in texts:
            raise EmbeddingError("a bad text")
        return np.array([[len(text)] * HIDDEN for text in texts], np.float32).reshape(-1, HIDDEN)

    def _wait(self) -> None:
        time.sleep(self.pause)
        assert self.go.wait(60)


@pytest.fixture
def embedder(tmp_path: Path) -> Fake:
    return Fake(tmp_path / "model")


async def test_each_of_many_requests_gets_its_own_and_the_model_is_loaded_once(embedder):
    embedder.pause = 0.01
    found: dict[int, list[float]] = {}

    async def ask(n: int) -> None:
        found[n] = (await embedder.embed(["x" * n, *["y"] * 9]))[:, 0].tolist()

    async with anyio.create_task_group() as tasks:
        for n in range(20):
            tasks.start_soon(ask, n)
    assert found == {n: [n, *[1] * 9] for n in range(20)}
    assert len(embedder.loads) == 1
    assert embedder.loads[0] is not threading.main_thread()


async def test_a_request_that_fails_is_one_error_and_takes_nothing_from_the_others(embedder):
    outcomes: dict[str, object] = {}

    async def ask(text: str) -> None:
        try:
            outcomes[text] = (await embedder.embed([text] * 10)).shape
        except EmbeddingError as error:
            outcomes[text] = str(error)

    async with anyio.create_task_group() as tasks:
        for text in ("first", "good", "bad", "fine"):
            tasks.start_soon(ask, text)
    good = (10, HIDDEN)
    assert outcomes == {"first": good, "good": good, "bad": "a bad text", "fine": good}


async def test_a_long_request_lets_others_in_between(embedder):
    await embedder.embed(["warm"])
    embedder.go.clear()
    done: list[str] = []

    async def ask(name: str, count: int) -> None:
        rows = await embedder.embed(["z" * (n % 7) for n in range(count)])
        assert rows[:, 0].tolist() == [n % 7 for n in range(count)]
        done.append(name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "long", 500)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(ask, "short", 1)
        await anyio.wait_all_tasks_blocked()
        embedder.go.set()
    assert done == ["short", "long"]


async def test_a_cancelled_caller_does_not_wait_and_its_work_stops(embedder):
    embedder.go.clear()
    with anyio.move_on_after(0.02):
        await embedder.embed(["a"])
    embedder.go.set()
    await embedder.embed(["b"])
    embedder.pause = 0.02
    with anyio.move_on_after(0.05):
        await embedder.embed(["long"] * 2000)
    embedder.batches.clear()
    await anyio.sleep(0.2)
    assert len(embedder.batches) <= 1


async def test_a_model_that_could_not_be_loaded_is_tried_again(embedder):
    embedder.load_errors = [EmbeddingError("not now")]
    with pytest.raises(EmbeddingError, match="not now"):
        await embedder.embed(["a"])
    assert (await embedder.embed(["a"])).shape == (1, HIDDEN)
    assert len(embedder.loads) == 2


@pytest.mark.parametrize(
    "name", ["", " ", "a\0b", "/nowhere/model", "../nowhere", "~/nowhere", "~nobody/at-all", "a/b/c"]
)
def test_a_model_that_can_be_nowhere_is_an_error_of_this_package(tmp_path, monkeypatch, name):
    pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(EmbeddingError, match="folder"):
        model_folder.find_model(name)


def test_a_model_in_the_users_home_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = make_bert(tmp_path / "model")
    assert model_folder.find_model("~/model") == folder


async def test_nothing_is_loaded_for_no_texts(embedder):
    assert (await embedder.embed([])).shape == (0, HIDDEN)
    assert embedder.loads == []


async def test_callers_that_wait_for_a_model_leave_threads_to_others(embedder):
    embedder.go.clear()
    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(embedder.embed, ["a"])
        await anyio.wait_all_tasks_blocked()
        await anyio.to_thread.run_sync(embedder.go.set)
