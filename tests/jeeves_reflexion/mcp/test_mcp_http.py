"""Over HTTP: who is let in, where, for what, how often; and clients that vanish."""

import re
import socket

import anyio
import pytest
from click.testing import CliRunner
from mcp_clients import ADVICE, TASK, call, lessons_at, served

from jeeves_reflexion.cli.listener import listen
from jeeves_reflexion.cli.program import program
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.mcp import http

pytestmark = pytest.mark.anyio


@pytest.fixture
async def lessons(tmp_path):
    async with lessons_at(tmp_path / "lessons") as opened:
        await opened.add(ADVICE, TASK)
        yield opened


async def test_only_a_token_that_is_good_lets_in(lessons):
    async with served(lessons) as server:
        token = await server.token()
        assert (await server.post(token)).status_code == 200
        for bad in (
            "",
            "jr_ada.",
            "jr_ada.guess",
            token + "x",
            token.replace("ada", "eve"),
            "Bearer",
            "jr_\u00e4.x",
        ):
            assert (await server.post(bad.encode("ascii", "ignore").decode())).status_code == 401, bad
        assert token.partition(".")[2] not in str(await server.tokens.all())
        assert await server.tokens.revoke("ada")
        assert (await server.post(token)).status_code == 401, "revoked while the server runs"
        assert not await server.tokens.revoke("ada")


async def test_clients_of_the_older_protocol_have_the_rights_of_their_own_tokens(lessons):
    async with served(lessons) as server:
        reader, writer = await server.token("reader", rights=("read",)), await server.token("writer")
        async with server.client(reader, "legacy") as one, server.client(writer, "legacy") as other:
            assert (await call(one, "recall_lessons", task=TASK))["lessons"]
            proposed = await call(
                other, "propose_lesson", task=TASK, lesson="Count the rows before the copy."
            )
            assert proposed["by"] == "writer"
            with pytest.raises(RuntimeError, match="its rights are read"):
                await call(one, "approve", lesson_id=proposed["id"])


async def test_a_token_is_good_for_its_namespaces_and_rights_alone(lessons):
    async with served(lessons) as server:
        reader = await server.token("reader", rights=("read",))
        stranger = await server.token("stranger", ("theirs/and more", "other"), ("read", "propose"))
        (mine,) = (await lessons.list()).lessons
        async with server.client(reader) as client:
            assert (await call(client, "recall_lessons", task=TASK))["lessons"]
            for tool, arguments in (
                ("propose_lesson", {"task": TASK, "lesson": ADVICE}),
                ("report_outcome", {"recall_id": "x", "score": 1.0}),
                ("approve", {"lesson_id": mine.id}),
                ("retire", {"lesson_id": mine.id, "reason": "mine"}),
                ("edit", {"lesson_id": mine.id, "lesson": "Other words."}),
                ("forget", {"lesson_id": mine.id}),
            ):
                with pytest.raises(RuntimeError, match=r"'reader' may not .*: its rights are read"):
                    await call(client, tool, **arguments)
            with pytest.raises(Exception, match="may not review"):
                await client.read_resource("lessons://review")
        async with server.client(stranger) as client:
            assert not (await call(client, "recall_lessons", task=TASK))["lessons"]
            proposed = await call(client, "propose_lesson", task=TASK, lesson=ADVICE)
            assert "theirs%2Fand%20more" in proposed["uri"]
            assert ADVICE in (await client.read_resource(proposed["uri"])).contents[0].text
            with pytest.raises(Exception, match="may not use the namespace 'default'"):
                await client.read_resource(f"lesson://default/{mine.id}")
            with pytest.raises(RuntimeError, match="may not use the namespace 'default'"):
                await call(client, "search_lessons", text=TASK, namespace="default")
        assert [each.id for each in (await lessons.list()).lessons] == [mine.id]


async def test_a_foreign_page_host_or_flood_is_refused(lessons):
    async with served(lessons, origins=("https://good.example",), per_minute=6) as server:
        token = await server.token()
        assert (await server.post(token, host="evil.example")).status_code == 421
        assert (await server.post(token, origin="https://evil.example")).status_code == 403
        answer = await server.post(token, origin="https://good.example")
        assert (answer.status_code, [name for name in answer.headers if "access-control" in name]) == (
            200,
            [],
        )
        asked = [(await server.post(token)).status_code for _ in range(20)]
        assert asked[0] == 200
        assert 429 in asked
        assert (await server.post(await server.token("grace"))).status_code == 200, (
            "another's bucket is another's"
        )


async def test_a_request_that_is_too_long_is_refused(lessons):
    async with served(lessons) as server:
        token = await server.token()
        assert (await server.post(token, text="x" * http.MOST_BYTES)).status_code == 413
        async with server.client(token) as client:
            assert (await call(client, "search_lessons", text=TASK))["lessons"]


async def test_clients_that_vanish_in_the_middle_leave_the_server_to_others(lessons):
    async with served(lessons) as server:
        token = await server.token()
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        asked = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        asked += "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        whole = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"propose_lesson","arguments":'
        whole += f'{{"task":"{TASK}","lesson":"Count the rows before the copy."}}}}}}'
        half = asked + f"Content-Length: {len(whole)}\r\n\r\n{whole[:60]}"
        for sent in (half, asked + f"Content-Length: {len(whole)}\r\n\r\n{whole}"):
            for _ in range(5):
                with socket.create_connection(("127.0.0.1", port)) as gone:
                    gone.sendall(sent.encode())
        async with server.client(token) as client:
            with anyio.fail_after(60):
                assert (await call(client, "recall_lessons", task=TASK))["lessons"]


def test_an_address_that_is_none_is_told(tmp_path):
    for address in (
        "8765",
        "localhost",
        "127.0.0.1:x",
        "127.0.0.1:99999",
        "no.such.host.invalid:1",
        f"{'ä' * 70}:1",
    ):
        told = CliRunner().invoke(
            program, ["serve", "mcp", "--lessons", str(tmp_path), "--create", "--http", address]
        )
        assert told.exit_code == 3
        assert re.search(r"HOST:PORT|can't listen on port", told.stderr)
    with listen("0.0.0.0", 0) as listening:
        with pytest.raises(ConfigurationError, match="--allow-host"):
            http.hosts_at(listening, "0.0.0.0", ())
        assert http.hosts_at(listening, "0.0.0.0", ("lessons.example",)) == ("0.0.0.0", "lessons.example")
    with listen("127.0.0.1", 0) as listening:
        assert "ada.local" in http.hosts_at(listening, "Ada.local", ()), "as it was asked for"
