"""The embedder that asks a service, against a real server."""

import logging
import math
import traceback
from collections.abc import Iterator

import anyio
import numpy as np
import pytest
from embedding_service import DIM, Reply, Service, right
from tables import table

from vectorstores import (
    Chunk,
    Embedder,
    EmbeddingError,
    HashingEmbedder,
    HttpEmbedder,
    HttpOptions,
    InMemoryVectorStore,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """One event loop: test_embedder_contract.py runs every embedder on both."""
    return "asyncio"


KEY = "sk-secret-0123456789"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    serving = Service()
    yield serving
    serving.close()


def embedder_of(service: Service, *, api_key: str | None = None, dim: int = DIM, **options) -> HttpEmbedder:
    return HttpEmbedder(
        "some-model", dim=dim, base_url=service.url, api_key=api_key, options=HttpOptions(**options)
    )


async def hashed(*texts: str, dim: int = DIM) -> np.ndarray:
    return await HashingEmbedder(dim).embed(texts)


async def test_each_text_gets_its_vector_whatever_the_order_of_the_reply(service):
    texts = [f"text number {n}" for n in range(10)]
    async with embedder_of(service, api_key=KEY, batch_size=4) as embedder:
        assert isinstance(embedder, Embedder)
        assert np.allclose(await embedder.embed(texts), await hashed(*texts), atol=1e-6)
    assert sorted(service.texts) == sorted([texts[:4], texts[4:8], texts[8:]])
    assert {headers["authorization"] for headers in service.headers} == {f"Bearer {KEY}"}
    assert service.requests[0] == {
        "model": "some-model",
        "input": service.texts[0],
        "encoding_format": "float",
        "path": "/v1/embeddings",
    }


async def test_a_length_is_asked_for_where_the_model_can_shorten_its_vectors(service):
    async with embedder_of(service, dim=16, send_dimensions=True) as embedder:
        assert (await embedder.embed(["a"])).shape == (1, 16)
    assert service.requests[0]["dimensions"] == 16
    assert "authorization" not in service.headers[0]


async def test_the_id_is_that_of_the_vectors():
    def make(model="m", dim=8, base_url="http://localhost:1", revision=None):
        return HttpEmbedder(model, dim=dim, base_url=base_url, revision=revision)

    same = {make().id, make(base_url="http://localhost:2/v1").id}
    others = {make(model="n").id, make(dim=9).id, make(revision="2").id}
    assert len(same) == 1
    assert len(same | others) == 4
    assert make().dim == 8


async def test_it_serves_a_store(service):
    async with (
        embedder_of(service) as embedder,
        InMemoryVectorStore(embedder, namespace="test") as store,
    ):
        await store.add([Chunk("put the mug on the desk"), Chunk("two cds in a safe")])
        (hit,) = await store.search("a mug for the desk", k=1)
    assert hit.chunk.content == "put the mug on the desk"


async def test_long_texts_go_in_requests_of_bounded_size(service):
    async with embedder_of(service) as embedder:
        await embedder.embed(["x " * 60_000] * 3)
    assert [len(texts) for texts in service.texts] == [1, 1, 1]


async def test_so_many_requests_are_sent_at_a_time(service):
    service.delay = 0.02
    found: dict[int, np.ndarray] = {}
    async with embedder_of(service, concurrency=2) as embedder:

        async def ask(n: int) -> None:
            found[n] = await embedder.embed([f"text {n}", f"other {n}"])

        async with anyio.create_task_group() as tasks:
            for n in range(12):
                tasks.start_soon(ask, n)
    for n, rows in found.items():
        assert np.allclose(rows, await hashed(f"text {n}", f"other {n}"), atol=1e-6)
    assert len(found) == 12
    assert service.most_at_once == 2


LIMIT = 500
REFUSALS = {
    "400": lambda: Reply({"error": "maximum context length is 512 tokens"}, status=400),
    "413": lambda: Reply({"error": "must have less than 512 tokens"}, status=413),
    "422": lambda: Reply({"error": "unprocessable"}, status=422),
}


def too_long(limit: int, status: str = "400"):
    """Answer as a service that takes texts up to so many characters."""
    return lambda request, number: (
        REFUSALS[status]() if any(len(text) > limit for text in request["input"]) else None
    )


@pytest.mark.parametrize("status", REFUSALS)
async def test_a_text_that_is_too_long_is_embedded_by_its_beginning_and_said_once(service, status, caplog):
    service.respond = too_long(LIMIT, status)
    long, longer = "a mug on the desk " * 100, "two cds in a safe " * 9000
    async with embedder_of(service, longest_wait=0.01) as embedder:
        rows = await embedder.embed(["short", long, "other", longer])
        assert np.allclose(rows, await hashed("short", long[:256], "other", longer[:256]), atol=1e-6)
        await embedder.embed([long])
    said = [record.getMessage() for record in caplog.records if record.name.startswith("vectorstores")]
    assert len(said) == 1
    assert service.url in said[0]
    assert "first 256" in said[0]
    assert "desk" not in said[0]


@table("limit", [64, 100, 511, 512, 513, 3000])
@table("length", [1, 64, 65, 512, 777, 20_000])
async def test_the_beginning_is_the_longest_power_of_two_that_is_taken(service, limit, length):
    service.requests.clear()
    service.respond = too_long(limit, "413")
    taken = length if length <= limit else min(2 ** int(math.log2(limit)), length)
    text = "".join(f"{n} " for n in range(length))[:length]
    async with embedder_of(service) as embedder:
        assert np.allclose(await embedder.embed([text]), await hashed(text[:taken]), atol=1e-6)
    assert len(service.requests) <= 20


@pytest.mark.parametrize("status", REFUSALS)
async def test_what_is_refused_for_another_reason_is_the_same_error_after_few_requests(service, status):
    service.respond = lambda request, number: REFUSALS[status]()
    async with embedder_of(service, longest_wait=0.01, retries=2) as embedder:
        with pytest.raises(EmbeddingError, match=status):
            await embedder.embed(["x" * 100_000])
    assert len(service.requests) <= 12


async def test_an_outage_cuts_no_text(service):
    text = "a mug on the desk " * 100
    for length in range(1, 8):
        outage = range(len(service.requests), len(service.requests) + length)
        service.respond = lambda request, number, outage=outage: (
            Reply(b"down", status=500) if number in outage else None
        )
        async with embedder_of(service, longest_wait=0.01, retries=9) as embedder:
            rows = await embedder.embed([text])
        assert np.allclose(rows, await hashed(text), atol=1e-6)


async def test_a_batch_that_is_too_large_goes_in_halves(service):
    service.respond = lambda request, number: (
        Reply({"error": "batch size"}, status=422) if len(request["input"]) > 3 else None
    )
    texts = [f"text {number}" for number in range(10)]
    async with embedder_of(service) as embedder:
        assert np.allclose(await embedder.embed(texts), await hashed(*texts), atol=1e-6)


@pytest.mark.parametrize(
    "trouble",
    [
        Reply({}, status=429, headers={"retry-after": "0"}),
        Reply(b"oops", status=500),
        Reply(b"{}" * 9, cut=True),
    ],
    ids=["busy", "broken", "cut"],
)
async def test_what_may_pass_is_tried_again(service, trouble):
    service.respond = lambda request, number: trouble if number < 2 else None
    async with embedder_of(service, longest_wait=0.01) as embedder:
        assert np.allclose(await embedder.embed(["a"]), await hashed("a"), atol=1e-6)
    assert len(service.requests) == 3


async def test_what_does_not_pass_is_an_error_in_the_end(service):
    service.respond = lambda request, number: Reply(b"down", status=503)
    async with embedder_of(service, longest_wait=0.01, retries=2) as embedder:
        with pytest.raises(EmbeddingError, match=r"503.*down.*asked 3 times"):
            await embedder.embed(["a"])
    assert len(service.requests) == 3
    service.respond = lambda request, number: Reply({}, status=429, headers={"retry-after": "3600"})
    async with embedder_of(service) as embedder:
        with pytest.raises(EmbeddingError, match="3600 s"):
            await embedder.embed(["a"])
    assert len(service.requests) == 4


async def test_a_service_that_hangs_or_is_not_there(service):
    service.respond = lambda request, number: Reply(hang=True)
    async with embedder_of(service, timeout=0.1) as embedder:
        with pytest.raises(EmbeddingError, match=r"no answer within 0\.1 s"):
            await embedder.embed(["a"])
    nobody = HttpEmbedder("m", dim=8, base_url="http://127.0.0.1:9", options=HttpOptions(retries=0))
    with pytest.raises(EmbeddingError, match="is it running"):
        await nobody.embed(["a"])


def changed(request, change):
    body = right(request)
    body["data"].sort(key=lambda item: item["index"])
    change(body)
    return Reply(body)


NOT_EACH = "without one embedding for each of 3 texts"
MALFORMED = {
    "no data": (lambda body: body.pop("data"), NOT_EACH),
    "one short": (lambda body: body["data"].pop(), NOT_EACH),
    "no embedding": (lambda body: body["data"][1].pop("embedding"), NOT_EACH),
    "index twice": (lambda body: body["data"][1].update(index=0), NOT_EACH),
    "index beyond": (lambda body: body["data"][1].update(index=7), NOT_EACH),
    "nan": (lambda body: body["data"][1]["embedding"].__setitem__(3, math.nan), r"texts\[1\].*NaN"),
    "zeros": (lambda body: body["data"][1].update(embedding=[0.0] * DIM), r"texts\[1\].*zeros"),
    "short": (lambda body: body["data"][2].update(embedding=[1.0]), r"texts\[2\].*\(32,\).*\(1,\)"),
    "ragged": (
        lambda body: body["data"][2].update(embedding=[[1], 2]),
        r"texts\[2\].*expected a row of numbers",
    ),
    "words": (lambda body: body["data"][2].update(embedding=["one"] * DIM), r"texts\[2\].*numbers"),
    "null": (lambda body: body["data"][0].update(embedding=None), r"texts\[0\]"),
}


@table(("change", "message"), MALFORMED.values())
async def test_a_malformed_reply_is_an_error_that_says_where(service, change, message):
    service.respond = lambda request, number: changed(request, change)
    async with embedder_of(service) as embedder:
        with pytest.raises(EmbeddingError, match=message):
            await embedder.embed(["a", "b", "c"])


async def test_the_index_in_an_error_is_that_of_the_callers_text(service):
    def spoil(request, number):
        if "bad" in request["input"]:
            return changed(request, lambda body: body["data"][0].update(embedding=[1.0]))
        return None

    service.respond = spoil
    async with embedder_of(service, batch_size=2) as embedder:
        with pytest.raises(EmbeddingError, match=r"texts\[4\]"):
            await embedder.embed(["a", "b", "c", "d", "bad"])


@table("charset", ["utf-8", "hex", "no-such"])
async def test_an_answer_that_is_no_json_is_quoted(service, charset):
    headers = {"content-type": f"text/html; charset={charset}"}
    service.respond = lambda request, number: Reply(b"<html>proxy</html>", headers=headers)
    async with embedder_of(service) as embedder:
        with pytest.raises(EmbeddingError, match=r"no JSON object .*: <html>proxy</html>"):
            await embedder.embed(["a"])


async def test_an_error_in_the_place_of_embeddings_is_quoted(service):
    """As proxies answer, with the status of a success."""
    service.respond = lambda request, number: Reply({"error": {"message": f"no model m for {KEY}"}})
    async with embedder_of(service, api_key=KEY) as embedder:
        with pytest.raises(EmbeddingError, match=r"answered with an error: .*no model m for \[REDACTED"):
            await embedder.embed(["a"])


async def test_the_key_is_in_no_error_log_or_repr(service, caplog):
    caplog.set_level(logging.DEBUG)
    answers = [Reply(f"key {KEY}".encode(), status=status) for status in (401, 400, 503, 200)]
    async with embedder_of(service, api_key=KEY, retries=0) as embedder:
        for answer in answers:
            service.respond = lambda request, number, answer=answer: answer
            with pytest.raises(EmbeddingError) as caught:
                await embedder.embed(["a"])
            assert KEY not in str(caught.value) + repr(caught.value.__cause__)
            assert "[REDACTED:api_key]" in str(caught.value)
    assert KEY not in repr(embedder) + caplog.text
    assert repr(embedder) == f"HttpEmbedder('some-model', dim=32, base_url='{service.url}')"


@pytest.mark.parametrize("name", ["api-key", "Authorization", "Cookie"])
async def test_what_headers_say_is_in_no_error(service, name):
    service.respond = lambda request, number: Reply(f"you sent <{KEY}>".encode(), status=400)
    value = {"api-key": KEY, "Authorization": f"Bearer {KEY}", "Cookie": f"a=b; c={KEY}"}[name]
    async with embedder_of(service, api_key="", retries=0, headers={name: value}) as embedder:
        with pytest.raises(EmbeddingError, match="you sent <") as caught:
            await embedder.embed(["a"])
        assert KEY not in "".join(traceback.format_exception(caught.value))
        item = {"index": f"you sent <{KEY}>", "embedding": [1.0] * DIM}
        service.respond = lambda request, number: Reply({"data": [item]})
        with pytest.raises(EmbeddingError, match="you sent <") as caught:
            await embedder.embed(["a"])
    assert KEY not in "".join(traceback.format_exception(caught.value))


async def test_a_header_that_cannot_be_sent_is_refused_without_showing_it():
    with pytest.raises(ValueError, match="the header X-Key must be") as caught:
        HttpOptions(headers={"X-Key": f"{KEY}\n"})
    assert KEY not in str(caught.value)


async def test_the_environment_names_address_and_key(service, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", service.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with HttpEmbedder("m", dim=DIM) as embedder:
        await embedder.embed(["a"])
    assert service.headers[0]["authorization"] == f"Bearer {KEY}"


async def test_settings_that_cannot_be(service):
    for wrong, message in (
        (lambda: HttpEmbedder("m", dim=8), "needs a key"),
        (lambda: HttpEmbedder(" ", dim=8, base_url=service.url), "name of a model"),
        (lambda: HttpEmbedder("m", dim=0, base_url=service.url), "dim"),
        (lambda: HttpEmbedder("m", dim=8, base_url="ftp://a"), "http://"),
        (lambda: HttpEmbedder("m", dim=8, base_url="https://user:pass@a"), "credentials"),
        (lambda: HttpEmbedder("m", dim=8, base_url=service.url, api_key="two keys"), "copied whole"),
        (lambda: HttpOptions(batch_size=0), "batch_size"),
        (lambda: HttpOptions(timeout=0), "timeout"),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            wrong()
        assert "pass@" not in str(caught.value)


async def test_connections_are_closed(service):
    async with embedder_of(service) as embedder:
        await embedder.embed(["a"])
        assert service.connections == 1
    assert await anyio.to_thread.run_sync(service.wait_until_closed)
    await embedder.embed(["b"])
    await embedder.close()
    await embedder.close()
    assert await anyio.to_thread.run_sync(service.wait_until_closed)


def test_one_embedder_serves_loops_one_after_the_other(service):
    embedder = embedder_of(service)
    for backend in ("asyncio", "trio", "asyncio"):
        assert anyio.run(embedder.embed, ["a"], backend=backend).shape == (1, DIM)
        assert service.wait_until_closed()
