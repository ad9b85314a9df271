"""How much memory an embedded PostgreSQL keeps pages in: by what the machine, or the container, has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_MB: Final = 2**20
# Of 24 GB these are 3, which hold the graph of a million lessons: a search there takes 9 ms, and 22 with the
# 128 MB that PostgreSQL takes by itself. They are taken as pages come in, all but some 2 % for the list of them.
_SHARE: Final = 8
_LEAST: Final = 128
_LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_OVERCOMMIT: Final = Path("/proc/sys/vm/overcommit_memory")
_STRICT: Final = "2"


def buffers(data: Path) -> dict[str, str]:
    """Return the setting of a server's buffers; none where ``ALTER SYSTEM`` set it in this data directory."""
    if "shared_buffers" in _text(data / "postgresql.auto.conf"):
        return {}
    # There memory is promised in full when the server starts, which then may fail.
    if _text(_OVERCOMMIT).strip() == _STRICT:
        return {}
    return {"shared_buffers": f"{max(_LEAST, memory() // _SHARE // _MB)}MB"}


def memory() -> int:
    """Return the bytes of memory that this process may use; 0 if the system does not say."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 0
    limits = (_text(path).strip() for path in _LIMITS)
    return min([found, *(int(limit) for limit in limits if limit.isdecimal())])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
