"""Addresses: which e-mail addresses, IP addresses, hosts and URLs a text had better not hold.

Hidden are every e-mail address, every IP address but those that stand for no machine (loopback, unspecified, netmasks),
hosts of a private network by their suffix, and URLs of either or of a host without a dot. Public addresses
are hidden as well as private ones: no lesson needs one. Addresses kept
for documentation are treated like any other, since nothing in a text says that it is an example. Public hosts and URLs
stay. A small dotted number (no part above 63) is a version, unless the words around it say that it is an address.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address, IPv6Network

_USER_OF_URL = re.compile(r"://[^\s/]{0,100}$")


def email(match: re.Match[str]) -> bool:
    """Whether it is an address of a mailbox: not the user of a URL, nor a place of git or of a package."""
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
    """Whether four numbers with dots are an address to hide, and no version."""
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
    """Whether it is an address in use (global, private or link-local), and no time, slice or path of code."""
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
"""Schemes of which a name without a dot is a host; that of s3:// or vscode:// is none."""
_NO_HOST = re.compile(
    r".|localhost|host|hostname|server|example|domain|url|address|site|website|test|www|your-host|myhost"
)


def internal_url(match: re.Match[str]) -> bool:
    """Whether the host of a URL is one of a private network: an address, a suffix, or a name without a dot."""
    scheme, host = match[1].lower().removeprefix("jdbc:"), match[2].lower().rstrip(".")
    if host.startswith("["):
        found = re.fullmatch(r".*", host[1:-1])
        return bool(found and ipv6(found))
    if re.fullmatch(r"[0-9.]+", host):
        quad = re.fullmatch(r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}", host)
        return bool(quad and _private(host))
    if _SUFFIX.search(host) or _MIDDLE.search(host):
        return True
    return "." not in host and not _NO_HOST.fullmatch(host) and bool(_NETWORK.fullmatch(scheme.split("+")[0]))


def _private(quad: str) -> bool:
    parts = [int(part) for part in quad.split(".")]
    return max(parts) <= 255 and parts[0] not in {0, 127, 255} and IPv4Address(bytes(parts)).is_private


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
    """Whether a name ending like one of a private network is a host, and no attribute, package or file."""
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
