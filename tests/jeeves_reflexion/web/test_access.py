"""Who is let in to the page, and what its answers say to the browser."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import sys

import httpx
import pytest
from click.testing import CliRunner
from page_parts import served

from jeeves_reflexion.cli.program import program

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


@pytest.fixture
def client(server):
    """A browser's session that was let in, without a browser."""
    with httpx.Client(base_url=server.base) as client:
        assert client.get(server.url).status_code == 303
        yield client


def form_of(client: httpx.Client, address: str = "/review") -> dict[str, str]:
    text = client.get(address).text
    found = re.search(
        r'action="(/lesson/approve[^"]*)".*?name="form" value="(\w+)".*?name="mark" value="(\w+)"',
        text,
        re.DOTALL,
    )
    assert found is not None
    return {"action": found[1], "form": found[2], "mark": found[3]}


def test_only_the_token_of_the_start_address_lets_in(server):
    with httpx.Client(base_url=server.base) as client:
        for address in (
            "/",
            "/review",
            "/?token=",
            "/?token=wrong-wrong-wrong-wrong",
            "/live",
            "/static/../",
        ):
            assert client.get(address).status_code in (401, 404), address
        let_in = client.get(server.url.replace("/?", "/review?all=1&"))
        assert let_in.status_code == 303
        assert let_in.headers["location"] == "/review?all=1"
        cookie = let_in.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert server.url.partition("token=")[2].lower() not in cookie
        page = client.get("/")
        assert page.status_code == 200
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "unsafe" not in page.headers["content-security-policy"]
        assert page.headers["cache-control"] == "no-store"


def test_another_host_is_not_answered(client, server):
    for host in ("evil.example", "evil.example:80", "localhost.evil.example", ""):
        assert client.get("/", headers={"host": host}).status_code == 421
    with httpx.Client(base_url=server.base) as stranger:  # an address is not made of what the header says
        assert stranger.get("/", headers={"host": "localhost:80/static/?"}).status_code == 421
    port = client.base_url.port
    assert client.get("/", headers={"host": f"localhost:{port}"}).status_code == 200


def test_it_answers_to_the_loopback_address_that_it_is_bound_to(server):
    with served(server.folder, "--host", "127.0.0.5") as other, httpx.Client() as client:
        assert other.url.startswith("http://127.0.0.5:")
        assert client.get(other.url, follow_redirects=True).status_code == 200


def test_a_change_needs_a_form_of_this_page(client, server):
    asked = form_of(client)
    fields = {"form": asked["form"], "mark": asked["mark"], "back": "review"}
    origin = {"origin": server.base}
    for headers, data, status in (
        ({}, fields, 403),
        ({"origin": "http://evil.example"}, fields, 403),
        ({"origin": "null"}, fields, 403),
        (origin, {**fields, "form": "0" * 64}, 403),
        (origin, {"mark": asked["mark"]}, 403),
        (origin, {**fields, "reason": "x" * 300_000}, 413),
        (origin, {**fields, "mark": "0"}, 409),
    ):
        assert client.post(asked["action"], headers=headers, data=data).status_code == status
    with httpx.Client(base_url=server.base) as stranger:
        assert stranger.post(asked["action"], headers=origin, data=fields).status_code == 401
    assert client.get(asked["action"]).status_code == 405
    assert form_of(client) == asked  # nothing was changed


def test_a_merge_of_an_unknown_lesson_is_refused_on_the_page_of_the_one_that_stays(client, server):
    at = next(each for each in re.findall(r'"(/lesson\?id=\w+)', client.get("/").text))
    text = client.get(at).text
    fields = {name: re.search(rf'name="{name}" value="(\w+)"', text)[1] for name in ("form", "mark")}
    for address, status, head in ((at, 422, fields["mark"]), ("/lesson?id=nobody", 404, "Not found")):
        answer = client.post(
            address.replace("?", "/merge?"),
            headers={"origin": server.base},
            data=fields | {"others": "nobody"},
        )
        assert (answer.status_code, head in answer.text) == (status, True)
        assert "there is no lesson &#39;nobody&#39;" in answer.text


def test_an_odd_address_and_a_damaged_run_are_answered_in_words(client, server):
    first = server.folder / "runs" / "first"
    config = json.loads((first / "config.json").read_text())
    line = (first / "journal.jsonl").read_text().splitlines()[0] + "\n"
    row = json.loads(line)
    damaged = [
        (config, '{"kind": "try"}\n', ""),
        ({**config, "design": None}, "", ""),
        ([], "", ""),
        ({**config, "design": {**config["design"], "trials": float("inf")}}, line, ""),
        ({**config, "design": {**config["design"], "arms": []}}, line, ""),
        *(({**config, "started": at}, line, "") for at in (1e300, float("nan"))),
        *((config, json.dumps({**row, "task_id": name}) + "\n", "") for name in (5, "\ud800")),
        (config, line + json.dumps({**row, "trial": "2"}) + "\n", ""),
        *((config, line + json.dumps({**row, "seed": seed}) + "\n", "") for seed in (7, "0", [0])),
        *((config, line, last) for last in ("[]\n", '"x"\n', "\x00\n")),
    ]
    names = [f"odd-{number}" for number in range(len(damaged))] + ["'\"><&?#%2e", os.fsdecode(b"\xff")]
    for name, (made, journal, events) in zip(
        names, [*damaged, (config, line, ""), (config, line, "")], strict=True
    ):
        folder = server.folder / "runs" / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(made))
        (folder / "journal.jsonl").write_text(journal)
        (folder / "events.jsonl").write_text(events)
    found = [html.unescape(each) for each in re.findall(r'"(/run\?run=.*?)"', client.get("/runs").text)]
    assert len(found) > len(names)
    for address in found:
        story = address.replace("/run?", "/story?") + "&task=cellar&arm=retry&seed=0"
        for each in (address, story):
            answer = client.get(each)
            assert answer.status_code < 500, each
            assert "there is no run" not in answer.text, each
    for address in (
        *("/lesson?id=%00", "/lesson?id=%ff%fe", "/lesson", "/?after=abc", "/?kind=%00", "/?tool=%00&q=x"),
        *(
            "/why?task=x&k=99999999999999999999",
            "/why?task=x&lesson=none",
            "/?state=odd",
            "/?q=%00%01",
            "/nowhere",
        ),
        *(
            "/run?run=../first",
            "/run",
            "/run?run=first&from=-1",
            "/story?run=first&task=none",
            "/live?run=none",
        ),
    ):
        answer = client.get(address)
        assert answer.status_code < 500, address
        assert "<h1>" in answer.text, address


def test_an_arm_that_tries_once_keeps_its_figure_and_held_out_tasks_are_tried_once(client, server):
    first, once = server.folder / "runs" / "first", server.folder / "runs" / "once"
    once.mkdir()
    text = (first / "config.json").read_text().replace('"retry"', '"react"')
    config = json.loads(text)
    config["design"]["held_out"] = ["cellar"]
    (once / "config.json").write_text(json.dumps(config))
    lines = (first / "journal.jsonl").read_text().replace('"arm": "retry"', '"arm": "react"').splitlines()
    rows = [row for row in map(json.loads, lines) if row["kind"] == "try"]
    learned = [
        row for row in rows if row["task_id"] != "cellar" and (row["arm"], row["trial"]) != ("react", 2)
    ]
    held = [{**row, "split": "held-out"} for row in rows if row["task_id"] == "cellar" and row["trial"] == 1]
    for row in held:
        row["result"]["passed"] = True
    (once / "journal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in learned + held))
    learning, held_out = re.findall(r"<figure>.*?</tbody>", client.get("/run?run=once").text, re.DOTALL)
    assert "not yet" not in learning
    assert "react, trial 2: 0/1" in learning
    assert "react, trial 1: 1/1" in held_out
    assert "trial 2" not in held_out


def test_a_run_that_took_the_place_of_another_is_read_anew(client, server):
    first, second = server.folder / "runs" / "first", server.folder / "runs" / "second"
    shutil.copytree(first, second)
    lines = (second / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (second / "journal.jsonl").write_bytes(b"".join(lines[:-1]))
    assert client.get("/run?run=second").status_code == 200
    os.utime(second / "config.json", (1.0, 1.0))
    (second / "journal.jsonl").write_bytes(
        b"".join([lines[0].replace(b"locked", b"locked for good"), *lines[1:]])
    )
    assert client.get("/run?run=second").status_code == 200


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "jeeves_reflexion.cli.listener", raising=False)
    told = CliRunner().invoke(program, ["ui"])
    assert told.exit_code == 3
    assert 'pip install "jeeves-reflexion[web]"' in told.stderr


def test_other_machines_are_let_in_only_when_asked(server):
    def told(*options: str, **environment: str):
        lessons = ("--lessons", str(server.folder / "lessons"), "--port", "0")
        return CliRunner().invoke(program, ["ui", *lessons, *options], env=environment)

    for refused, why in (
        (told("--host", "0.0.0.0"), "--public NAME"),
        (told(JEEVES_UI_TOKEN="short"), "16 characters"),
        (told(JEEVES_UI_TOKEN=os.fsdecode(b"\xff" * 16)), "ASCII"),
        *(
            (told("--public", name), "not a host name")
            for name in ("", "*", "::1", "a.example:80", "http://a")
        ),
        (told("--host", "host.invalid", "--public", "host.invalid"), "can't listen on port"),
    ):
        assert refused.exit_code == 3
        assert why in refused.stderr
