"""Checks that a pattern can't express: whether a number, an address or a random-looking word is a secret.

``patterns.toml`` names these functions. The rules for numbers are those of ``python-stdnum`` and ``phonenumbers``,
which are loaded when a text holds a candidate.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import re
from importlib import import_module
from ipaddress import AddressValueError, IPv4Address, IPv6Address, IPv6Network

# -- numbers -------------------------------------------------------------------------------------------------------

# The prefixes of each card issuer, and the lengths of its numbers.
_ISSUERS = (
    (re.compile(r"4"), (13, 16, 19)),
    (re.compile(r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), (16,)),
    (re.compile(r"3[47]"), (15,)),
    (re.compile(r"30[0-5]|36|3[89]"), (14, 16)),
    (re.compile(r"35(?:2[89]|[3-8])"), (16, 17, 18, 19)),
    (re.compile(r"6011|64[4-9]|65|62|60|81"), (16, 17, 18, 19)),
    (re.compile(r"50|5[6-8]|6[37]"), (12, 13, 14, 15, 16, 17, 18, 19)),
)
_DRAMA = ("01632960", "07700900", "03069990")
_MANY = re.compile(r" [a-z]{2,20}s\b")
"""What follows a count, as in "reach 1234567 users"."""
_ROUND = re.compile(r"[1-9][0-9]{0,2}0{3,}(?: [1-9][0-9]{0,2}0{3,})+")


def card(match: re.Match[str]) -> bool:
    """Whether an issuer has numbers of this prefix and length, and the check digit (Luhn) is right."""
    digits = _digits(match[0])
    known = any(prefix.match(digits) and len(digits) in lengths for prefix, lengths in _ISSUERS)
    return known and bool(import_module("stdnum.luhn").is_valid(digits))


def stdnum(module: str, match: re.Match[str]) -> bool:
    """Whether ``stdnum.MODULE`` accepts the number, by its format, checksum or date."""
    return bool(import_module(f"stdnum.{module}").is_valid(match[0].replace(" ", "")))


def nric(match: re.Match[str]) -> bool:
    """Whether the last letter is right for a Singaporean identity number (python-stdnum has no module for these)."""
    first, digits, last = match[0][0], match[0][1:-1], match[0][-1]
    total = sum(weight * int(digit) for weight, digit in zip((2, 7, 6, 5, 4, 3, 2), digits, strict=True))
    letters = "JZIHGFEDCBA" if first in "ST" else "XWUTRQPNMLK"
    return letters[(total + 4 * (first in "TG")) % 11] == last


def phone(match: re.Match[str]) -> bool:
    """Whether a number with a country code has a possible length for that country."""
    library = import_module("phonenumbers")
    text = re.sub(r"^00 ?", "+", re.sub(r"\(0\)", "", match[0]))
    try:
        number = library.parse(text, None)
    except library.NumberParseException:
        return False
    return bool(library.is_possible_number_with_reason(number) == library.ValidationResult.IS_POSSIBLE)


def local_phone(match: re.Match[str]) -> bool:
    """Whether a number after a word like "phone" has the digits of one, and is not a list of round numbers."""
    number = match["secret"]
    if number.isdigit() and _MANY.match(match.string, match.end("secret")):
        return False
    return 7 <= len(_digits(number)) <= 15 and not _ROUND.fullmatch(number)


def uk_phone(match: re.Match[str]) -> bool:
    """Whether it is a number of the United Kingdom, or one of Ofcom's numbers for drama."""
    digits = _digits(match[0])
    if digits.startswith(_DRAMA):
        return True
    library = import_module("phonenumbers")
    return bool(library.is_valid_number(library.parse(digits, "GB")))


def long_number(match: re.Match[str]) -> bool:
    """Whether a number after the name of an id has the digits of one."""
    return 8 <= len(_digits(match["secret"])) <= 15


def _digits(text: str) -> str:
    return re.sub(r"[^0-9]", "", text)


# -- places ---------------------------------------------------------------------------------------------------------
# These are hidden: each e-mail address; each IP address, except loopback, unspecified ones and netmasks; hosts with the
# suffix of a private network; and URLs with such an address or host, or with a host without a dot. Public addresses
# are hidden too, since no lesson needs one and no text tells whether an address is an example. Public hosts and URLs
# stay. A small dotted number (no part above 63) is a version, unless the words around it call it an address.

_USER_OF_URL = re.compile(r"://[^\s/]{0,100}$")


def email(match: re.Match[str]) -> bool:
    """Whether it is the address of a mailbox: not the user of a URL, a git remote or a package version."""
    text, start, end = match.string, match.start(), match.end()
    if _USER_OF_URL.search(text, max(0, start - 110), start):
        return False
    local = match[0].rpartition("@")[0]
    return not (local == "git" or local.endswith(".git") or text[end : end + 1] == "(")


_VERSION = re.compile(
    r"(?i)(?:\b(?:versions?|release|build|chapter|sections?|rev(?:ision)?|firmware|driver|java|chrome|python"
    r"|upgraded? to|update[sd]? to)|[=<>~!]=|[~^§]|\bv\.?)[\s:]*$"
)
_ADDRESS = re.compile(
    r"(?i)(?:\b(?:ip|ips|ipv4|hosts?|server|address|ping|ssh|dns|nameserver|resolver|gateway|proxy|node|machine|router|peer|client"
    r"|from|connect(?:ed|ing)? to|forwarded-for|telnet|nmap|curl)\b[\s:=\"'(]{0,4}|[\w.-]@|//)$"
)


def ipv4(match: re.Match[str]) -> bool:
    """Whether four numbers with dots are an address to hide, not a version."""
    quad, _, _ = match[0].partition("/")
    parts = [int(part) for part in quad.split(".")]
    if max(parts) > 255 or parts[0] in {0, 127, 255} or re.search(r"\.0[0-9]", quad):
        return False
    before = match.string[max(0, match.start() - 24) : match.start()]
    if IPv4Address(bytes(parts)).is_private and parts[0] in {172, 192}:
        return True
    if (
        _ADDRESS.search(before)
        or "/" in match[0]
        or re.match(r":[0-9]{2,5}\b", match.string[match.end() : match.end() + 6])
    ):
        return True
    if _VERSION.search(before):
        return False
    return parts[0] == 10 or max(parts) > 63


_UNIQUE_LOCAL = IPv6Network("fc00::/7")


def ipv6(match: re.Match[str]) -> bool:
    """Whether it is a global, private or link-local address, not a time, a slice or a path in code."""
    text = re.split(r"[/%]", match[0])[0]
    try:
        address = IPv6Address(text)
    except AddressValueError:
        return False
    groups = [group for group in text.split(":") if group]
    if address.is_link_local or address in _UNIQUE_LOCAL:
        return True
    return text[0] in "23" and len(groups[0]) == 4 and len(groups) >= 3


_SUFFIX = re.compile(
    r"(?i)\.(?:internal|local|localdomain|corp|lan|intranet|intra|private|priv|home|home\.arpa|consul|svc)\.?$"
)
_MIDDLE = re.compile(r"(?i)(?:^|\.)(?:internal|corp|intranet|intra|lan|private|privatelink)\..")
_NETWORK = re.compile(
    r"https?|wss?|s?ftps?|ssh|git|rediss?|postgres(?:ql)?|mysql|mariadb|mongodb|amqps?|kafka|ldaps?|smb|nfs|tcp|udp|tls|grpcs?|nats"
    r"|mqtt|rtsp|vnc|rdp|telnet|clickhouse|cassandra|elasticsearch|bolt|neo4j|memcached|etcd|consul"
)
"""Schemes in which a name without a dot is a host, unlike in s3:// or vscode://."""
_NO_HOST = re.compile(
    r".|localhost|host|hostname|server|example|domain|url|address|site|website|test|www|your-host|myhost"
)


def internal_url(match: re.Match[str]) -> bool:
    """Whether the host of a URL is in a private network: an address, a suffix, or a name without a dot."""
    scheme, host = match[1].lower().removeprefix("jdbc:"), match[2].lower().rstrip(".")
    if host.startswith("["):
        inner = re.fullmatch(r".*", host[1:-1])
        return bool(inner and ipv6(inner))
    if re.fullmatch(r"[0-9.]+", host):
        if not re.fullmatch(r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}", host):
            return False
        parts = [int(part) for part in host.split(".")]
        return max(parts) <= 255 and parts[0] not in {0, 127, 255} and IPv4Address(bytes(parts)).is_private
    if _SUFFIX.search(host) or _MIDDLE.search(host):
        return True
    return "." not in host and not _NO_HOST.fullmatch(host) and bool(_NETWORK.fullmatch(scheme.split("+")[0]))


_ALWAYS = re.compile(r"\.(?:corp|lan|intranet|localdomain|consul|home\.arpa)$")
_NO_FIRST = re.compile(
    r"(?:threading|gevent|asyncio|self|this|cls|settings|config|env|path|os|docker-compose|vite|webpack|app|application|values|vars)\."
)
_IMPORT = re.compile(r"(?:\b(?:import|package|using|require|module|use)|@)\s*[\"'(]?$")
_HOST_WORD = re.compile(
    r"(?i)\b(?:hosts?|hostname|server|machine|node|ssh|ping|connect(?:s|ed|ing)? to|resolve|dns|on|at|to|proxy"
    r"|database|broker|curl|wget|scp|telnet|nslookup|dig|-h)\b[\s:=\"'(]{0,3}$"
)


def internal_host(match: re.Match[str]) -> bool:
    """Whether a name with a private network's suffix is a host, not an attribute, a package or a file."""
    name, text, start = match[0], match.string, match.start()
    before = text[max(0, start - 24) : start]
    if re.search(r"[a-z][A-Z]", name) or _IMPORT.search(before) or _NO_FIRST.match(name):
        return False
    if re.match(r"\s+import\b", text[match.end() : match.end() + 10]):
        return False
    first, _, rest = name.partition(".")
    if _ALWAYS.search(name) or "." in rest or re.search(r"[0-9-]", first):
        return True
    return bool(_HOST_WORD.search(before) or re.match(r":[0-9]{2,5}\b", text[match.end() : match.end() + 6]))


# -- randomness -----------------------------------------------------------------------------------------------------
# The rule, for a word of 20 characters or more, separators (``-_/+``) left out: it is random if the share of places
# where the class changes (lower case, upper case, digit) is at least 0.8 times the share of letter pairs that are
# common in words. Random characters of 62 kinds change class at 62 % of places; names made of words change less often,
# and have more common pairs. Of 8,900 random words of 20 to 64 characters 1.2 % pass as names; of 1,277 names in Python
# packages with all three classes 4 pass as random, and 3 of these are random. Words of one case and digits need four
# separate runs of digits. Kept are hexadecimal words (hashes of a task, commits), UUIDs, what follows ``sha256:`` or
# ``base64,``, base64 that decodes to plain words, identifiers and paths.

_LETTERS = (
    "thheineranreonatenndtiesorteofedisitalarsttontngsehaasouiolevecomedehiriroicneearacelichllbemasiomur"
    "caeltalansdifohopeecprnoctusacotiltrlyncetutsssorsunlowageiewheewiemadolrtpowenaulnitsmoowpaimmiaish"
    "irsuidosiviaamficivipligtuevldrympfeblabghtyopwosaayexkefrooavagifapgrodbosprddoucbueiovbyrmepttocfa"
    "efcurnscgidayocrcldugaquueffbaeylsvaumppuauplugohtruugdsltpircrregauckewmubrbiptakpuuirgibtlnykirkys"
    "obmmfuphogmsyeudmbipuboirlgudrhrcctwftwnnuafhunneovorvnfxpgnsmflizoknlmyglawjuoaeqsyslpsjolfnvjenkkn"
    "gsdyhyzeksxtbsikddptrpskxi"
)
_COMMON = frozenset(_LETTERS[at : at + 2] for at in range(0, len(_LETTERS), 2))
"""The most common pairs of letters in words."""
_HASH_BEFORE = re.compile(r"(?i)(?:sha-?[0-9]{1,3}|md5|base64|fingerprint)[-:=, ]{1,2}$")
_SHORTEST = 20


def random_looking(match: re.Match[str]) -> bool:
    """Whether the word looks random, and is not a hash, a UUID or base64 of words."""
    word = match[0].strip("-_/+=")
    if len(word) < _SHORTEST or _HASH_BEFORE.search(match.string[max(0, match.start() - 14) : match.start()]):
        return False
    if re.match(r"(?i)sha[0-9]{1,3}-", word) or not re.search(r"[^0-9a-fA-FxX-]", word):
        return False
    core = re.sub(r"[-_/+]", "", word)
    if len(core) < _SHORTEST - 2:
        return False
    classes = "".join("d" if c.isdigit() else "u" if c.isupper() else "l" for c in core)
    changes = sum(a != b for a, b in itertools.pairwise(classes)) / (len(core) - 1)
    pairs = re.findall(r"(?=([a-z]{2}))", core.lower())
    common = sum(pair in _COMMON for pair in pairs) / len(pairs) if pairs else 0.0
    if len(set(classes)) < 3:
        random = len(re.findall("d+", classes)) >= 4 and changes >= 0.25 and common < 0.4
    else:
        random = changes >= 0.8 * common
    return random and not _decodes(match[0])


def _decodes(word: str) -> bool:
    """Whether it is base64 of plain words, which holds no secret that redaction would find."""
    try:
        text = base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_", validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return False
    return text.isprintable() and " " in text and sum(c.isalpha() or c == " " for c in text) > 0.8 * len(text)
