"""Secrets are found, prose is left alone, and doing it twice changes nothing."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion import Lesson, Provenance, Step, redact
from jeeves_reflexion.events import LessonPersisted, StepTaken
from jeeves_reflexion.redaction import redact_json, redact_record
from jeeves_reflexion.text import Needles

SECRETS = {  # a text, and the part of it that must be gone
    "key sk-proj-abcDEF1234567890abcdef": "abcDEF1234567890",
    "sk-ant-api03-AbCdEf1234567890XYZ": "AbCdEf1234567890",
    "sk_live_abcdefghij1234": "abcdefghij1234",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv": "SyA1234567890",
    "hf_abcdefGHIJ0123456789klmn": "abcdefGHIJ",
    "glpat-abcdefGHIJ0123456789": "abcdefGHIJ",
    "ghp_abcdefghij0123456789abcdefghij": "abcdefghij0123456789",
    "xoxb-123456789012-abcdef": "123456789012",
    "https://hooks.slack.com/services/T000/B000/XXXXXXXXXXXXXXXX": "T000/B000",
    "AKIAIOSFODNN7EXAMPLE": "AKIAIOSFODNN7EXAMPLE",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY": "wJalrXUtnFEMI",
    "AccountKey=abc123def456==": "abc123def456",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcDEF123": "eyJzdWIi",
    "Authorization: Bearer abcdef123456.xyz": "abcdef123456",
    "Authorization: Basic dXNlcjpwYXNz": "dXNlcjpwYXNz",
    "authorization=ApiKeyabcdefgh1": "ApiKeyabcdefgh1",
    "postgres://u:p@ss@host/db": "p@ss",
    "redis://:s3cret@h:6379": "s3cret",
    "https://user:pass@example.org/x": "pass@",
    "https://x.y/?access_token=abcd1234efgh&x=1": "abcd1234efgh",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----": "MIIabc",
    "-----BEGIN PRIVATE KEY-----\nMIIabc and it was cut": "MIIabc",
    "export OPENAI_API_KEY=abcdefgh12345": "abcdefgh12345",
    "GITHUB_TOKEN=abcdefghijk": "abcdefghijk",
    "MYSQL_PWD=letmein": "letmein",
    "client_secret=abcdefg": "abcdefg",
    "api-key: 'abcdefgh'": "abcdefgh",
    "dbpassword=letmein1": "letmein1",
    "passwd=letmein": "letmein",
    "password: hunter": "hunter",
    "the password is hunter22": "hunter22",
    "my secret is s3cr3t!x": "s3cr3t",
    "secret: hunter2hunter2": "hunter2hunter2",
    "token: a1b2c3d4e5": "a1b2c3d4e5",
    "--password hunter22x": "hunter22x",
    "DB_PASSWORD='x yz 123'": "x yz 123",
    '"password": "correct horse battery"': "horse",
    '{"api_key": "abc def"}': "abc def",
    '{\\"password\\": \\"hunter2\\"}': "hunter2",
}

PROSE = [
    "",
    "The password is required.",
    "When the password is missing, ask for it.",
    "A password has 8 characters",
    "passwordless: enabled1",
    "Check the API key before calling.",
    "Use basic authentication for the endpoint",
    "Basic configuration-management is enough",
    "bearer authentication header",
    "authorization: required",
    "The secret: always look in the drawer first",
    "the secret is patience",
    "secretary: Miss Marple",
    "the token is case-sensitive, mind it",
    "max_tokens: 1000000",
    "tokens used: 1234567",
    "The key: value store",
    "keyboard: mechanical123",
    "sk-learn-compatible-estimators-everywhere",
    "task-management-with-many-words-here",
    "npm-package-json-dependencies-list-file",
    "http://localhost:8080/path@v1",
    "http://host:8080?email=a@b.c",
    "https://medium.com/@user",
    "git@github.com:org/repo.git",
    "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "Put the apple in fridge 1, then examine it with desklamp 1.",
    "score: 0.7",
]


def test_a_secret_is_taken_out():
    for text, secret in SECRETS.items():
        clean = redact(f"Before, {text} and after.")
        assert secret not in clean
        assert clean.startswith("Before, ")
        assert "[REDACTED:" in clean
        assert redact(clean) == clean


def test_prose_is_left_alone():
    assert [text for text in [*PROSE, *FOREIGN] if redact(text) != text] == []


DISGUISED = {  # a text, and the part of it that must be gone
    "mail an\u200bn@exam\u2060ple.org": "ple.org",
    "mail an\u00adn@example.org": "an\u00adn",
    "mail ann\uff20example.org": "ann",
    "key sk-proj-AbCd\u200bEf0123456789\u200dAbCdEf": "0123456789",
    "key ghp_0123456789abcdefghij\u200bABCDEFGHIJ012345": "ABCDEFGHIJ",
    "card 4111\u00a01111\u20071111\u202f1111": "1111",
    "phone +1 (555) 123\u20114567": "4567",
    "key AKIAIOSFODNN\uff17\uff25XAMPLE": "IOSFODNN",
    "Passwort: geheim123": "geheim123",
    "das Kennwort ist geheim123": "geheim123",
    "contrase\u00f1a: hunter2": "hunter2",
    "mot de passe : secret123": "secret123",
    "\u043f\u0430\u0440\u043e\u043b\u044c: qwerty123": "qwerty123",
    "\u5bc6\u7801\uff1aabc12345": "abc12345",
    f"private key 0x{'4c0883a69102937d' * 4}": "4c0883a6",
}
FOREIGN = [
    "Wide \uff11\uff12\uff13 and\u00a0spaces \u200b stay, and so do \U0001f468\u200d\U0001f469 and a\u2011b.",
    "Das Passwort: wird nicht angezeigt.",
    "La contrase\u00f1a es obligatoria.",
    "O campo senha: obrigat\u00f3rio.",
    "\u5bc6\u7801\u662f\u5fc5\u586b\u9879",
    f"block 0x{'4c0883a69102937d' * 4} was mined",
]


@table(("text", "secret"), DISGUISED.items())
def test_a_secret_in_disguise_or_in_another_language_is_taken_out(text, secret):
    for whole in (text, f"V\u00f6r, {text} \u2013 nach.", f"{'Kein Wort davon. ' * 40}{text}"):
        clean = redact(whole)
        assert secret not in clean
        assert "[REDACTED:" in clean
        assert redact(clean) == clean
        assert clean.startswith(whole[:3])


words = st.one_of(
    st.sampled_from([*SECRETS, *PROSE, *DISGUISED, *FOREIGN, "\u200b", "\uff20"]),
    st.sampled_from(
        [
            "password",
            "is",
            ":",
            "=",
            '"',
            "'",
            "://",
            "@",
            "Bearer ",
            "token",
            "sk-",
            "eyJ",
            ".",
            "[REDACTED:x]",
        ]
    ),
    st.text(max_size=12),
)


@given(st.lists(words, max_size=8), st.sampled_from(["", " ", "\n"]))
def test_redacting_twice_changes_nothing(parts, between):
    once = redact(between.join(parts))
    assert redact(once) == once


@given(st.lists(st.sampled_from(sorted(SECRETS)), min_size=1, max_size=4))
def test_secrets_beside_each_other_are_all_taken_out(texts):
    clean = redact("\n".join(texts))
    assert [SECRETS[text] for text in texts if SECRETS[text] in clean] == []


def test_json_is_cleaned_in_every_place():
    value = {
        "password": "plain words",
        "tokens": ["plain"],
        "token": ["plain", {"a": "b"}],
        "empty": {"secret": ""},
        "nested": [{"note": "password: hunter22"}, 7, None, True],
        "sk-proj-abcDEF1234567890abcdef": 1,
    }
    assert redact_json(value) == {
        "password": "[REDACTED:secret]",
        "tokens": ["plain"],
        "token": ["[REDACTED:secret]", {"a": "b"}],
        "empty": {"secret": ""},
        "nested": [{"note": "password: [REDACTED:secret]"}, 7, None, True],
        "[REDACTED:api_key]": 1,
    }
    json.dumps(redact_json(value))


def test_records_are_cleaned_however_deep():
    step = StepTaken(run_id="r", number=1, step=Step(observation="password: hunter22"))
    assert redact_record(step).step.observation == "password: [REDACTED:secret]"
    lesson = Lesson("i", "token: a1b2c3d4", "t", "x", Provenance("r", 1, None), tools=("password=hunter",))
    stored = redact_record(LessonPersisted(run_id="r", block="b", lesson=lesson))
    assert (stored.lesson.text, stored.lesson.tools) == (
        "token: [REDACTED:secret]",
        ("password=[REDACTED:secret]",),
    )


def test_a_record_without_secrets_is_itself():
    step = StepTaken(run_id="r", number=1, step=Step("thought", "action", "observation"))
    assert redact_record(step) is step


@given(st.lists(st.text("abcé-_ 1", min_size=1, max_size=4)), st.text("abcé-_ 1"))
def test_the_words_that_a_text_holds_are_those_that_stand_in_it(words, text):
    assert Needles(words).held(text) == {word for word in words if word in text}


@given(st.text("keytoknpassRHF_", max_size=15))
def test_a_short_name_is_no_secret_whatever_it_says(name):
    assert redact(name) == name
    assert redact(f"{name} ") == f"{name} "  # as it is read where something stands beside it
