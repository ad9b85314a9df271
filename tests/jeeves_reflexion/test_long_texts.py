"""What reads the texts of models, tasks and files takes time in proportion to them, whatever is in them."""

from __future__ import annotations

import contextlib
import threading
import time
from functools import partial

import pytest
from tables import table

from jeeves_reflexion import Evaluation, Provenance, Reflection, Reflexion, Session, Task
from jeeves_reflexion.agents.reply import parse_reply
from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.evaluators.replies import read_replies, read_reply
from jeeves_reflexion.evaluators.scores import parse_score
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.lessons.duplicates import normalised
from jeeves_reflexion.lessons.gate import shape_problem
from jeeves_reflexion.lessons.screening.characters import clean_characters, hidden_text
from jeeves_reflexion.lessons.screening.rules import screen
from jeeves_reflexion.models.advice import read_lesson, repeats
from jeeves_reflexion.models.fields import read_fields
from jeeves_reflexion.models.replies import answer, json_value, prose
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.reflections.endpoints import named_tools
from jeeves_reflexion.reflections.forms import (
    cause_of,
    clean_text,
    flat_text,
    principle_of,
    procedure_in,
)
from jeeves_reflexion.reflections.markdown import escaped, from_markdown, slug, summary_of
from jeeves_reflexion.revisers import Edit, apply_edits, parse_edits
from jeeves_reflexion.revisers.edits import holds_markers
from jeeves_reflexion.revisers.model import whole_text
from jeeves_reflexion.tasknotes.reflector import as_data
from jeeves_reflexion.tasknotes.strategy import read_sections
from jeeves_reflexion.text import abridge, fence, one_line, sentences
from jeeves_reflexion.values import Hider
from jeeves_reflexion.workflows.schemas import coerce_scalar
from vectorstores import HashingEmbedder, InMemoryVectorStore

READERS = {
    "redact": redact,
    "sentences": sentences,
    "one_line": one_line,
    "abridge": partial(abridge, characters=200),
    "fence": partial(fence, "lessons"),
    "as_data": as_data,
    "clean_characters": clean_characters,
    "hidden_text": hidden_text,
    "screen": screen,
    "shape_problem": shape_problem,
    "normalised": normalised,
    "read_lesson": read_lesson,
    "repeats": lambda text: repeats(text, text[::-1]),
    "answer": answer,
    "prose": prose,
    "json_value": json_value,
    "read_reply": read_reply,
    "read_replies": partial(read_replies, names=("first", "second")),
    "read_fields": partial(read_fields, names={"What happened?": "what", "why": "why"}),
    "read_sections": read_sections,
    "parse_edits": parse_edits,
    "holds_markers": holds_markers,
    "whole_text": partial(whole_text, old="old", tag="text"),
    "from_markdown": from_markdown,
    "summary_of": summary_of,
    "slug": slug,
    "escaped": escaped,
    "principle_of": principle_of,
    "procedure_in": procedure_in,
    "cause_of": cause_of,
    "clean_text": clean_text,
    "flat_text": flat_text,
    "Hider": Hider("forty two"),
    "coerce_scalar": partial(coerce_scalar, kind="number"),
    "parse_reply": parse_reply,
    "parse_score": parse_score,
    "named_tools": partial(named_tools, ["search", "GET /v1/x"]),
    "apply_edits": lambda text: apply_edits(text, [Edit(text[: len(text) // 2], "new")]),
}
PIECES = [
    "a", "A", "0", "é", "中", "\uff41", "\u200b", " ", "\t", "\n", "\r\n", "\u2028", ".", "-", "_", "/",
    "\\", "#", "*", "a. ", "A. ", "e.g. ", "x! Then ", ". T", "?!? ", "\u3002x", "1. A ", " No. ",
    "etc. a ", "(a) ", '" a. ', "“A. ", "`A. ", "password=", "password: ", "password=x ", "token=",
    'api_key="', "sk-", "AKIA", "eyJ", "eyJa.", "Bearer ", "secret", "-----BEGIN ",
    "-----BEGIN PRIVATE KEY-----", "a@", "a@b.", "https://a:b@", "://", "1 ", "12.", "1:2:", "::",
    "4111 ", "DE89", "+49 ", "[REDACTED:", "a-", "Aa1", "<", ">", "</", "<a", "<a ", "&lt;", "{", "[",
    "(", '{"a":', "```\n", "~~~\n", "> ", "\n- ", "\n1. ", "\n## Task\n", "## ", "**a**", "score: ",
    "lesson: ", "if a, then ", "i am ", "forty ", "GET /v1 ", "<<<<<<< SEARCH\n", "=======\n",
    "<think>", "\n\n", "\n \n", "Step 1: ", "because ", "ignore all ", "you must ",
    "</think>", "here is: ", "- ", "**", "Action: x[", "\ufffc", "</s> ", "<answer>",
    "```\n<think>\n```\n", '"', "\u201c",
]  # fmt: skip


OWN_PIECES = {
    "redact": [
        '12-', 'John Smith <', 'a dot ', 'token=<', "secret='", '10.0.0.1', '00:', 'a.internal',
        'http://a/', 'ip-1-', 'Aa1+/', '2345 6789 0124 ', 'password for a ', 'phone 1', "a'", 'GB82WEST',
        'openssl -k ', 'PIN 1234 ', 'password, a1', 'passphrase: correct horse ', 'recovery codes: ab12cd ',
        'a_', 'eyJ-', 'eyJaaaaaaaa.', 'a.a', 'password ', 'token is ', 'x://a:', '-----BEGIN A ',
        'lin_oauth_', 'a:5432:b:c:', '*:*:*:', 'the password is ', 'the password for the password is x-',
        'ssh a ', 'ssh a@', 'a@b', '\\\\a1\\', '\\\\', '\\\\\\\\a1', 'server a1.', 'on a1:', 'hostname is ',
        'password == ',
    ],
    "screen": [
        'ignore ', 'send the ', 'a ', 'a b c d e f ', 'send password ', '<|', 'http://a.', '6967', 'QUFB',
        '%69', 'do not tell ', 'this lesson ', 'curl ', 'system: ', '`', '{"name": ', 'ignore all the ',
        'send a@b.',
    ],
    "clean_characters": ["a\u200db\u0336c\u0301"],
    "json_value": ["```[", "``` ", "```{\n"],
    "parse_score": ["8/", "overall ", "score: 1e"],
}  # fmt: skip
"""What else may be slow for one reader, by its name."""


@table("name", READERS)
def test_a_reader_takes_time_in_proportion_to_a_text(name):
    read = READERS[name]

    def seconds(piece: str, size: int) -> float:
        text = piece * (size // len(piece))
        started = time.thread_time()
        # What is no such text is refused, as quickly.
        with contextlib.suppress(ValueError, ConfigurationError, LessonStoreError):
            read(text)
        return time.thread_time() - started

    def is_slow(piece: str) -> bool:
        # Four times the text: quadratic would be 16 times the time. What takes less time could not be found too slow,
        # and neither could what takes less than 2.4 times that of half the text, which is cheaper to find out.
        if (small := seconds(piece, 4_000)) <= 0.00125 or small <= 2.2 * seconds(piece, 2_000):
            return False
        return seconds(piece, 16_000) > 8 * small + 0.01

    # What else the machine does makes a measurement slow now and then, but not each of five.
    pieces = [*PIECES, *OWN_PIECES.get(name, [])]
    assert [piece for piece in pieces if all(is_slow(piece) for _ in range(5))] == []


@pytest.mark.anyio
async def test_a_long_prompt_does_not_hold_up_the_event_loop():
    task = Task("password=hunter2hunter2 " * 4_000, id="long")
    threads = set()

    def seen(text: str) -> str:
        threads.add(threading.current_thread())
        return text

    async with VectorLessonStore(InMemoryVectorStore(HashingEmbedder(), namespace="test")) as store:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("jeeves_reflexion.lessons.store.clean_prompt", seen)
            await store.record(
                task, Reflection("Look in the drawer first."), provenance=Provenance("r", 0, 0.0)
            )
            await store.recall(task, k=1)
            await store.search(task.prompt)
            assert threading.current_thread() not in threads
            threads.clear()
            await store.search("short")
            assert threads == {threading.current_thread()}


@pytest.mark.anyio
async def test_a_long_output_does_not_hold_up_the_event_loop_for_a_listener():
    threads, heard = set(), []

    def seen(event):
        threads.add(threading.current_thread())
        return event

    async def listen(event) -> None:
        heard.append(event)

    loop = Reflexion(
        lambda prompt: "the mug is red " * 10_000,
        evaluator=lambda task, attempt: Evaluation(1.0),
        reflector=lambda task, trials, problem=None: Reflection("Look in the drawer first."),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jeeves_reflexion.redaction.records.redact_record", seen)
        for listener in (listen, heard.append):
            await loop.run("x", session=Session(listener=listener))
    assert len(threads) == 2, "the short events in the event loop's, the long one in another"
    assert [event.kind for event in heard].count("reflexion.attempt_finished") == 2


@table("address", ["010.0.0.1", "connect to 010.0.0.1", "mongodb://u@010.0.0.1/x", "192.168.001.010"])
def test_an_address_with_leading_zeros_is_read(address):
    assert isinstance(redact(address), str)
