"""Nothing secret or personal in a reflection, wherever it goes: X35 to X39."""

from __future__ import annotations

import json
import logging

import pytest
from protocol_parts import FAILED_FIELDS, STEPS, TASK, failed, record, reply, source
from tables import table

from jeeves_reflexion import Evaluation, ReAct, Reflexion, ScriptedModel, Task
from jeeves_reflexion.events import Event, as_json
from jeeves_reflexion.reflections.forms import FORMS, make_reflection
from jeeves_reflexion.reflections.journal import ReflectionJournal
from jeeves_reflexion.reflections.library import ReflectionLibrary
from jeeves_reflexion.reflections.policy import ReflectionPolicy
from jeeves_reflexion.reflections.streams import Streams
from vectorstores import FaissVectorStore, HashingEmbedder

pytestmark = pytest.mark.anyio

SECRETS = [
    "sk-proj-AbCdEf0123456789AbCdEf",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dBjftJeZ4CVPmB92K27uhbUJU1p1r",
    "hunter2hunter2!",
]
TOLD = [
    SECRETS[0],
    SECRETS[1],
    SECRETS[2],
    f"Authorization: Bearer {SECRETS[3]}",
    f"postgres://admin:{SECRETS[4]}@db/x",
]
PERSONAL = ["maria.lopez@example.com", "m.lopez+work@mail.example.org", "+49 30 1234567", "(555) 123-4567"]
INTERNAL = [
    "10.0.12.7",
    "192.168.1.20",
    "172.16.4.1",
    "https://jira.corp.internal/browse/X-1",
    "db01.prod.internal",
]
BENIGN = [
    "Authentication failed because the credentials had expired.",
    "Step 3 took 1500 ms; version 2.14.1 of the API answers 503 since 2026-03-01 12:30.",
    "Always validate API response status before parsing the body.",
    "The commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b moved the token limit from 4096 to 8192.",
    "Call https://api.example.com/v1/items?page=2 with a timeout of 30 seconds.",
    "Read /etc/hosts and src/app/main.py line 42 before you run `pytest -q`.",
]


def telling(secret: str) -> dict[str, str]:
    """The fields of a failed task, each of which tells a secret."""
    return {key: f"{text[:-1]} ({secret})." for key, text in FAILED_FIELDS.items()}


async def everything(tmp_path, secret: str, caplog) -> dict[str, str]:
    """What is left of a run whose task, agent, evaluator and reflector all tell a secret."""
    caplog.set_level(logging.DEBUG)
    heard: list[Event] = []
    text = reply(telling(secret), important=True, rule=f"Never use {secret} again.", steps=[f"Ask {secret}."])
    agent = ScriptedModel([f"I used {secret}"] * 4)
    async with FaissVectorStore(tmp_path / "index", embedder=HashingEmbedder(), namespace="tests") as index:
        journal = ReflectionJournal(tmp_path / "reflections")
        library = ReflectionLibrary(journal, index, streams=Streams(index))
        loop = Reflexion(
            ReAct(agent),
            evaluator=lambda output: Evaluation(0.0, rationale=f"{secret} is wrong"),
            reflector=ScriptedModel([text] * 8),
            lesson_store=library,
            preset="structured_reflections",
        )
        task = Task(
            f"Log in with {secret}", id=f"login {secret}", kind=f"kind {secret}", tools=(f"tool {secret}",)
        )
        result = await loop.run(task, session=loop.session(listener=heard.append))
        policy = ReflectionPolicy(journal)
        assert await policy.after(result, f"agent {secret}")  # of another agent: nothing has paid it
        assert await policy.after(result, "react") == ()  # paid by what the loop wrote
        await policy.finished("other", task, "failed", run_id=f"run {secret}")
        streams = [
            item.text
            for stream in (library.streams.principles, library.streams.procedures)
            for item in await stream.list()
        ]
    assert len(result.lessons) == 4
    assert len(streams) == 2
    stored = [path for path in tmp_path.rglob("*") if path.is_file()]
    return {
        "files": "".join(path.read_bytes().decode("utf-8", "replace") for path in stored),
        "names": "\n".join(map(str, stored)),
        "prompt": "".join(trial.block for trial in result.trials),
        "events": json.dumps([as_json(event) for event in heard], ensure_ascii=False),
        "log": caplog.text,
        "streams": "".join(streams),
    }


async def test_x35_x36_x37_nothing_secret_personal_or_internal_in_file_index_prompt_log_or_event(
    tmp_path, caplog
):
    told = "; ".join([*TOLD, *PERSONAL, *INTERNAL])
    for where, text in (await everything(tmp_path, told, caplog)).items():
        assert [secret for secret in SECRETS if secret.lower() in text.lower()] == [], where
        assert [personal for personal in PERSONAL if personal in text] == [], where
        assert "lopez" not in text, where  # nor the name in an address, also in what files are called
        assert [internal for internal in INTERNAL if internal in text] == [], where


@table("text", BENIGN)
async def test_x38_what_is_generic_and_useful_survives(tmp_path, text):
    journal = ReflectionJournal(tmp_path)
    stored = record(journal, TASK, failed(what_happened=text), provenance=source())
    (read,) = [one for one in journal.list().stored if one.id == stored.id]
    assert read.entry.reflection.fields["what_happened"] == text
    assert read.entry == stored.entry


async def test_x38_a_secret_leaves_a_generic_word_and_the_rest_of_its_sentence(tmp_path):
    journal = ReflectionJournal(tmp_path)
    told = failed(what_happened=f"The login with {SECRETS[0]} failed with status 401.")
    stored = record(journal, TASK, told, provenance=source())
    said = stored.entry.reflection.fields["what_happened"]
    assert said.startswith("The login with [REDACTED:")
    assert said.endswith("] failed with status 401.")


async def test_x39_the_bytes_on_disk_are_clean_before_anything_is_recalled(tmp_path):
    journal = ReflectionJournal(tmp_path)
    fields = telling(SECRETS[0])
    reflection = make_reflection(
        "failed", fields, rule=f"Drop {SECRETS[1]}.", steps=[*STEPS, f"Ask {SECRETS[2]}."]
    )
    asked = Task(f"Use {SECRETS[0]}")
    stored = record(journal, asked, reflection, provenance=source(f"agent {SECRETS[1]}"))
    data = stored.path.read_bytes().decode("utf-8")
    assert not [secret for secret in SECRETS if secret in data or secret.lower() in str(stored.path).lower()]
    assert data.count("[REDACTED:") >= 8
    assert journal.list().malformed == ()  # and it is still a reflection


async def test_a_secret_that_a_person_wrote_broken_up_gets_out_of_its_file_nowhere(tmp_path):
    secret = SECRETS[0]
    broken = f"{secret[:14]}\ufe0f{secret[14:]}"
    folder = tmp_path / "reflections" / "bob"
    folder.mkdir(parents=True)
    told = "\n".join(f"## {each.heading}\nDo not use {broken} again." for each in FORMS["failed"].fields)
    text = f"# Reflection: 2026-03-01 - bob - Sign in with {broken}\n{told}\n"
    text += f"### Principle\nNever use {broken}.\n### Procedure\n1. Use {broken}\n2. Stop\n"
    (folder / "2026-03-01-x.md").write_text(text)
    async with FaissVectorStore(tmp_path / "store", embedder=HashingEmbedder(), namespace="t") as store:
        library = ReflectionLibrary(
            ReflectionJournal(tmp_path / "reflections"), store, streams=Streams(store)
        )
        assert await library.sync() == ()
        indexed = await library.index.scan()
        streams = (await library.streams.principles.list(), await library.streams.procedures.list())
        recalled = await library.recall(Task("Sign in"), k=1)
    assert len(recalled.offered) == 1
    for what in (indexed, streams, recalled):
        assert secret not in repr(what).replace("\\ufe0f", "").replace("\ufe0f", "")
