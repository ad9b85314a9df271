"""What is hidden, and what only looks like it and stays."""

from __future__ import annotations

import re
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion import redact
from jeeves_reflexion.redaction import PATTERNS

HIDDEN = {
    "mysql -u root -p'hunter2' shop": "mysql -u root -p'[REDACTED:password]' shop",
    "write to alice@example.com soon": "write to [REDACTED:email] soon",
    "ask <bob.b+x@mail.example.co.uk>, please": "ask <[REDACTED:email]>, please",
    "to Jane Roe <jane@example.com>, at last": "to [REDACTED:email], at last",
    "call (555) 123-4567 now": "call [REDACTED:phone] now",
    "ring +49 30 901820 at noon": "ring [REDACTED:phone] at noon",
    "Card 4111 1111 1111 1111 exp 12/27": "Card [REDACTED:card] exp 12/27",
    "IBAN DE89 3704 0044 0532 0130 00.": "IBAN [REDACTED:iban].",
    "SSN: 123-45-6789": "SSN: [REDACTED:national_id]",
    "NRIC S1234567D": "NRIC [REDACTED:national_id]",
    "CURP HEGG560427MVZRRL04": "CURP [REDACTED:national_id]",
    "host 10.0.0.5:22 is down": "host [REDACTED:ip_address]:22 is down",
    "from fe80::1%eth0 to fd00::12:3": "from [REDACTED:ip_address] to [REDACTED:ip_address]",
    "server at 81.174.22.9 failed": "server at [REDACTED:ip_address] failed",
    "db.prod.internal refuses": "[REDACTED:internal_host] refuses",
    "server prod-db-01 failed": "server [REDACTED:internal_host] failed",
    "see http://internal-api:8080/v1?x=1, then": "see [REDACTED:internal_url], then",
    "see https://git.corp.acme.com/a/b.": "see [REDACTED:internal_url].",
    "GET http://192.168.1.10/ failed": "GET [REDACTED:internal_url] failed",
    "learned 00:1a:2b:3c:4d:5e twice": "learned [REDACTED:mac_address] twice",
    "password=$Ecret123!": "password=[REDACTED:secret]",
    "password: my-secret-pw1": "password: [REDACTED:secret]",
    "the pass is tr0ub4dor, so": "the pass is [REDACTED:secret], so",
    "curl -u ada:s3cretpw https://example.com": "curl -u ada:[REDACTED:authorization] https://example.com",
}

KEPT = [
    "card 4111 1111 1111 1112 of no issuer",
    "DE89 3704 0044 0532 0130 01 has wrong digits",
    "S1234567A has a wrong letter",
    "x = a[1::2] + b[::3]",
    "bind to 127.0.0.1 or ::1, mask 255.255.255.0",
    "numpy 1.2.3.4, version 10.1.2.3",
    "at 12:30:45 on 2024-01-02",
    "password=<your password>",
    "password=$DB_PASSWORD",
    "password=os.environ['X']",
    "token = get_token(user)",
    "Authorization: Bearer YOUR_TOKEN_HERE",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "run 123e4567-e89b-12d3-a456-426614174000",
    "getUserAccountByIdentifierAndRegionOrThrowException",
    "self._lock = threading.local()",
    "import com.acme.internal.util",
    "git@github.com:org/repo.git",
    "http://localhost:3000/x and s3://bucket/key",
]


@table(("text", "clean"), HIDDEN.items())
def test_a_value_goes_and_the_text_around_it_stays(text, clean):
    assert redact(text) == clean
    assert redact(clean) == clean


def test_what_only_looks_like_it_stays():
    assert [text for text in KEPT if redact(text) != text] == []


pieces = st.one_of(
    st.sampled_from([*HIDDEN, *KEPT]),
    st.sampled_from(
        [
            "@",
            "://",
            ".internal",
            "10.0.0.1",
            "4111 ",
            "+1 ",
            "[REDACTED:x]",
            "[REDACTED:",
            "password ",
            "\ud800",
            "İ",
        ]
    ),
    st.text(st.characters(), max_size=12),
    st.from_regex(r"[0-9 +().:-]{0,24}", fullmatch=True),
)


@given(st.lists(pieces, max_size=8), st.sampled_from(["", " ", "\n"]))
def test_any_text_is_taken_and_twice_is_once(parts, between):
    once = redact(between.join(parts))
    assert redact(once) == once


@given(st.sampled_from(sorted(HIDDEN)), st.integers(0, 3000), st.integers(0, 3000))
def test_a_long_text_is_read_like_a_short_one(text, before, after):
    around = "Put the egg in the microwave, then look. "
    left, right = (around * 80)[:before] + "\n", "\n" + (around * 80)[:after]
    assert redact(left + text + right) == left + HIDDEN[text] + right


def test_a_long_value_goes_whole():
    for text in (
        f"secret_key={'aB3' * 2000}",
        f"see http://wiki/{'a/' * 2000}x",
        f"token: eyJ{'aB3' * 2000}.abcdefgh.abcd",
    ):
        assert len(redact("look around " * 60 + text)) < 800


def test_every_pattern_compiles_and_needs_small_letters():
    for pattern in PATTERNS:
        assert re.compile(pattern.expression).groups >= 0
        assert [need for need in pattern.needs if need != need.lower()] == []


def test_importing_loads_no_library_of_numbers():
    code = (
        "import sys, jeeves_reflexion.redaction as r; r.redact('Put apple 1 in fridge 1.');"
        "print([name for name in sys.modules if name.split('.')[0] in ('stdnum', 'phonenumbers')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
