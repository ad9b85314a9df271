"""The client of Wikipedia, against a server of our own on the loopback."""

import http.server
import json
import threading
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest

from benchmarks.hotpotqa import wikipedia
from benchmarks.hotpotqa.failures import PagesError
from benchmarks.hotpotqa.pages import Similar
from benchmarks.hotpotqa.questions import Page
from benchmarks.hotpotqa.wikipedia import Wikipedia

pytestmark = pytest.mark.anyio
PAGES = {
    "Larkspur": {
        "title": "The Larkspur",
        "extract": "The Larkspur is old. It is in Tamsin.\n\n== Menu ==\nFish",
    },
    "Mercury": {"title": "Mercury", "extract": "Mercury may refer to:", "pageprops": {"disambiguation": ""}},
}


class Service:
    """Answers as the API does; ``replies`` come first, as (status, headers, body)."""

    def __init__(self):
        self.asked = []
        self.replies = []
        self.busy = self.most = 0

    def answer(self, query):
        if "titles" in query:
            page = PAGES.get(query["titles"], {"title": query["titles"], "missing": True})
            return {"query": {"pages": [page]}}
        return {"query": {"search": [{"title": f"{query['srsearch']} {n}"} for n in range(3)]}}


@pytest.fixture
def service():
    made = Service()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
            made.asked.append((query, self.headers["User-Agent"]))
            made.busy += 1
            made.most = max(made.most, made.busy)
            status, headers, body = made.replies.pop(0) if made.replies else (200, {}, None)
            text = (json.dumps(made.answer(query)) if body is None else body).encode()
            made.busy -= 1
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.address = f"http://127.0.0.1:{server.server_port}/w/api.php"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        server.shutdown()
        thread.join()


async def test_a_page_is_found_with_its_sentences(service, tmp_path):
    async with Wikipedia(tmp_path, address=service.address, delay=0, contact="me@example.org") as pages:
        found = await pages.find("Larkspur")
    assert found == Page("The Larkspur", ("The Larkspur is old.", "It is in Tamsin.", "== Menu ==", "Fish."))
    query, agent = service.asked[0]
    assert query["redirects"] == "1"
    assert query["maxlag"] == "5"
    assert "jeeves-reflexion" in agent
    assert "me@example.org" in agent


@pytest.mark.parametrize("name", ["Nowhere", "Mercury"])
async def test_no_page_or_one_that_lists_meanings_gives_similar_titles(service, tmp_path, name):
    async with Wikipedia(tmp_path, address=service.address, delay=0) as pages:
        assert await pages.find(name) == Similar((f"{name} 0", f"{name} 1", f"{name} 2"))


async def test_what_was_asked_once_is_read_from_the_disk(service, tmp_path):
    for _ in range(2):
        async with Wikipedia(tmp_path / "cache", address=service.address, delay=0) as pages:
            await pages.find("Larkspur")
    assert len(service.asked) == 1


async def test_a_cache_that_was_cut_off_is_written_anew(service, tmp_path):
    async with Wikipedia(tmp_path, address=service.address, delay=0) as pages:
        await pages.find("Larkspur")
        next(tmp_path.glob("*.json")).write_text('{"que', encoding="utf-8")
        assert isinstance(await pages.find("Larkspur"), Page)
    assert len(service.asked) == 2


async def test_requests_come_one_at_a_time_with_a_delay(service, tmp_path):
    async with Wikipedia(tmp_path, address=service.address, delay=0.05) as pages:
        started = anyio.current_time()
        async with anyio.create_task_group() as group:
            for n in range(3):
                group.start_soon(pages.find, f"Nowhere {n}")
        assert anyio.current_time() - started >= 5 * 0.05
    assert len(service.asked) == 6
    assert service.most == 1


async def test_a_busy_server_is_waited_for(service, tmp_path):
    lagging = json.dumps({"error": {"code": "maxlag", "info": "5 seconds"}})
    service.replies = [(429, {"Retry-After": "0"}, "slow down"), (200, {"Retry-After": "0"}, lagging)]
    async with Wikipedia(tmp_path, address=service.address, delay=0) as pages:
        assert isinstance(await pages.find("Larkspur"), Page)
    assert len(service.asked) == 3


@pytest.mark.parametrize(
    ("replies", "said"),
    [
        ([(503, {"Retry-After": "0"}, "")] * wikipedia.TRIES, "busy 3 times"),
        ([(500, {}, "")], "HTTP 500"),
        ([(200, {}, "<html>")], "no JSON"),
        ([(200, {}, "[]")], "no JSON object"),
        ([(200, {}, json.dumps({"error": {"code": "x", "info": "bad title"}}))], "refused: bad title"),
    ],
)
async def test_what_is_no_answer_is_an_error_and_is_not_kept(service, tmp_path, replies, said):
    service.replies = list(replies)
    async with Wikipedia(tmp_path, address=service.address, delay=0) as pages:
        with pytest.raises(PagesError, match=said):
            await pages.find("Larkspur")
        assert isinstance(await pages.find("Larkspur"), Page)


async def test_a_server_that_is_not_there_is_an_error(tmp_path):
    async with Wikipedia(tmp_path, address="http://127.0.0.1:9/", delay=0) as pages:
        with pytest.raises(PagesError, match=r"127\.0\.0\.1:9"):
            await pages.find("Larkspur")
