"""What a stranger's texts showed to be left: phrases of several words, telephones as people write them."""

from __future__ import annotations

import random
import string

from tables import table

from jeeves_reflexion import redact

HEX = "".join(random.Random(7).choices("0123456789abcdef", k=64))
ALNUM = "".join(random.Random(7).choices(string.ascii_letters + string.digits, k=64))

HIDDEN = {
    "passphrase: correct horse battery staple": "passphrase: [REDACTED:password]",
    "Passphrase=correct horse battery staple": "Passphrase=[REDACTED:password]",
    "The passphrase is correct horse battery staple.": "The passphrase is [REDACTED:password].",
    "the pass phrase: correct horse battery staple, typed": "the pass phrase: [REDACTED:password], typed",
    "password=correct horse battery staple": "password=[REDACTED:password]",
    "the passphrase is correct-horse-battery-staple": "the passphrase is [REDACTED:password]",
    "passphrase: correct horse battery staple and then enter": "passphrase: [REDACTED:password] and then enter",
    "My passphrase, correct horse battery staple, is short": "My passphrase, [REDACTED:password], is short",
    "Its passphrase turned out to be correct horse battery staple.": (
        "Its passphrase turned out to be [REDACTED:password]."
    ),
    "type the passphrase correct horse battery staple": "type the passphrase [REDACTED:password]",
    "su with hunter22 as the root password": "su with [REDACTED:password] as the root password",
    "I logged in using bob/hunter22": "I logged in using bob/[REDACTED:password]",
    "keystore's storepass hunter22 was": "keystore's storepass [REDACTED:password] was",
    "mob. 91234 56789": "mob. [REDACTED:phone]",
    "erreichbar unter 0221 4710 123": "erreichbar unter [REDACTED:phone]",
    f"pat-na1-{HEX[:8]}-{HEX[:4]}-{HEX[:4]}-{HEX[:4]}-{HEX[:12]} ended": "[REDACTED:api_key] ended",
    f"Algolia admin key {HEX[:32]}": "Algolia admin key [REDACTED:secret]",
    f"Signature={HEX}": "Signature=[REDACTED:secret]",
    "the password, hunter22, was seen": "the password, [REDACTED:password], was seen",
    "Das Passwort lautet hunter22.": "Das Passwort lautet [REDACTED:password].",
    "My passphrase is: correct horse battery staple": "My passphrase is: [REDACTED:password]",
    "the passphrase for the key is correct horse battery staple": (
        "the passphrase for the key is [REDACTED:password]"
    ),
    "and the pin is 1234.": "and the pin is [REDACTED:password].",
    "the PIN is 4711 today": "the PIN is [REDACTED:password] today",
    "Your verification code: 811984": "Your verification code: [REDACTED:password]",
    "unzip -P hunter2 a.zip": "unzip -P [REDACTED:password] a.zip",
    "openssl enc -aes-256-cbc -k hunter2 -in a": "openssl enc -aes-256-cbc -k [REDACTED:password] -in a",
    "sqlplus scott/tiger@orcl": "sqlplus scott/[REDACTED:password]@orcl",
    "020 7946 0958 was busy": "[REDACTED:phone] was busy",
    "at 0161 496 0123 or 01632 960 123": "at [REDACTED:phone] or [REDACTED:phone]",
    "Téléphone : 01 23 45 67 89": "Téléphone : [REDACTED:phone]",
    "Tel.: 030 123456": "Tel.: [REDACTED:phone]",
    "call 98765 43210 now": "call [REDACTED:phone] now",
    "My number is 06.39.98.12.34.": "My number is [REDACTED:phone].",
    "電話 03-1234-5678 です": "電話 [REDACTED:phone] です",
    f"the account AC{HEX[:32]} is": "the account [REDACTED:api_key] is",
    f"https://{HEX[:32]}@o4500.ingest.sentry.io/45": "https://[REDACTED:api_key]@o4500.ingest.sentry.io/45",
    f"the hmac key {HEX} signs": "the hmac key [REDACTED:secret] signs",
    f"access-production-{HEX[:8]}-{HEX[:4]}-{HEX[:4]}-{HEX[:4]}-{HEX[:12]} ended": "[REDACTED:api_key] ended",
    f"hash $2b$12${ALNUM[:53]} of bob": "hash [REDACTED:password] of bob",
    '"john doe"@example.com is one': "[REDACTED:email] is one",
    "NHS number 943 476 5919": "NHS number [REDACTED:national_id]",
}
KEPT = [
    "Enter passphrase for key '/home/user/.ssh/id_rsa':",
    "Ask the user for a passphrase: never guess one.",
    "The passphrase is checked before the file is opened.",
    "The passphrase is kept in the vault of the team.",
    "password: at least eight characters required",
    "The password is case sensitive.",
    "Passphrase: three random dictionary words suffice",
    "Passphrase strength meters mislead people.",
    'passphrase = input("Passphrase: ")',
    "password: minimum length twelve",
    "A good mnemonic is short funny vivid rhymes.",
    "[REDACTED:api_key] = 12345678",
    "Log in at 10:30:45 each day.",
    "napi_get_value_string_utf8 and rnd_seed_for_all_experiments_2",
    "server response-200 was cached",
    "The matrix row is 01 23 45 67 89.",
    "Part number 020 7946 has been discontinued.",
    "reach 100000 200000 users",
    "call 1234567 items and text 12345678 users",
    "solder pin 12 and pin 13; pin: 7",
    "machine learning-2 is a course",
    "Pin 12 is ground, pin 13 is clock; the PIN must have 6 digits.",
    "Error code 123456, exit code 1377, zip code 90210",
    f"commit {HEX[:40]} and AC{HEX[:12]}",
    f"index {HEX[:32]} of the table",
]


@table(("text", "clean"), HIDDEN.items())
def test_what_was_left_goes(text, clean):
    assert redact(text) == clean
    assert redact(clean) == clean


def test_what_only_looks_like_it_stays():
    assert [text for text in KEPT if redact(text) != text] == []
