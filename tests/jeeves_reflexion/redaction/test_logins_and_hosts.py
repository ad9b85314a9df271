"""Logins, shares and hosts of a private network: what must go and what must stay, fifteen texts of each kind."""

from __future__ import annotations

import random
import re
import string
from pathlib import Path

from tables import table

from jeeves_reflexion import redact


def rows(name: str) -> list[tuple[str, str, str]]:
    """Kind, "hidden" or "kept", and the text."""
    read = Path(__file__).with_name(name).read_text(encoding="utf-8")
    parts = re.split(r"^== (.+)\n", read, flags=re.MULTILINE)[1:]
    found = []
    for kind, block in zip(parts[::2], parts[1::2], strict=True):
        hidden, _, kept = block.strip().partition("\n--\n")
        found += [(kind, "hidden", line) for line in hidden.splitlines()]
        found += [(kind, "kept", line) for line in kept.splitlines()]
    return found


FIRST = rows("logins_and_hosts.txt")
LATER = rows("logins_and_hosts_later.txt")  # five and five of each, written when the patterns stood


_ALPHABETS = {"hex": "0123456789abcdef", "alnum": string.ascii_letters + string.digits}


def filled(text: str) -> str:
    """Put random characters where ``{hex:64}`` or ``{alnum:32}`` stands."""
    dice = random.Random(7)
    return re.sub(
        r"\{(hex|alnum):(\d+)\}", lambda m: "".join(dice.choices(_ALPHABETS[m[1]], k=int(m[2]))), text
    )


def outcome(text: str) -> str:
    """``right``, ``missed`` (part of a secret is left) or ``changed`` (more went than should)."""
    text = filled(text)
    marked = re.sub("«([^»]*)»", "\x00", text)
    plain = text.replace("«", "").replace("»", "")
    secrets = re.findall("«([^»]*)»", text)
    clean = redact(plain)
    wanted = re.escape(marked).replace("\x00", r"\[REDACTED:[a-z_]+\]")
    if re.fullmatch(wanted, clean):
        return "right"
    return "missed" if any(secret in clean for secret in secrets) else f"changed: {clean}"


WRONG = {
    "The password was «Elephant» until Monday.",  # as "the password was important"
    "Restart node «worker12» first.",  # nodes of trees and documents have such names too
    "The server «zeus» holds the backups.",
    "app.js:1234:handler:onClick:undefined",
    "password = new_password2",  # may be a bad password as well as a name
}
"""What is known to go wrong; each was so when the patterns first saw these texts."""


@table("kind", dict.fromkeys(kind for kind, _, _ in FIRST))
@table("wanted", ["hidden", "kept"])
def test_what_is_one_goes_and_what_only_looks_like_it_stays(kind, wanted):
    texts = [text for of, state, text in [*FIRST, *LATER] if (of, state) == (kind, wanted)]
    assert {text: outcome(text) for text in texts if text not in WRONG} == {
        text: "right" for text in texts if text not in WRONG
    }
    assert [text for text in texts if text in WRONG and outcome(text) == "right"] == []


def test_there_are_as_many_that_stay_as_that_go():
    assert (len(FIRST), len(LATER)) == (7 * 2 * 15, 7 * 2 * 5)
    assert sum(wanted == "kept" for _, wanted, _ in FIRST + LATER) == 7 * (15 + 5)
