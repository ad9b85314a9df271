"""Files that are replaced whole: the old text or the new one, for this user alone, and durable."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jeeves_reflexion import files
from jeeves_reflexion.files import NotSyncedError, not_written, read_regular, replace_file

posix = pytest.mark.skipif(os.name != "posix", reason="permissions and folders of POSIX")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "block.md"


def fail_for(kind, monkeypatch):
    """Have what syncs a file, or a folder, fail."""
    sync = os.fsync

    def failing(handle):
        if kind(os.fstat(handle).st_mode):
            raise OSError(28, "No space left on device")
        sync(handle)

    monkeypatch.setattr(files.os, "fsync", failing)


def test_a_text_takes_the_place_of_another_and_leaves_nothing_beside(path):
    for text in ("old and longer", "new", "", "ä \u2028 \U0001f600\r\n"):
        replace_file(path, text)
        assert path.read_bytes() == text.encode()
    assert list(path.parent.iterdir()) == [path]


def test_what_utf_8_cannot_hold_becomes_a_question_mark(path):
    replace_file(path, "a\ud800b")
    assert path.read_text(encoding="utf-8") == "a?b"


@posix
@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_a_file_is_for_this_user_alone_whatever_stood_there(path, mask):
    path.write_text("old", encoding="utf-8")
    part = path.with_name(f"{path.name}.part")
    part.write_text("left by a writer that was killed, and longer than the new text", encoding="utf-8")
    path.chmod(0o644)
    part.chmod(0o644)
    before = os.umask(mask)
    try:
        replace_file(path, "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text(encoding="utf-8") == "new"


def lay(what, path, elsewhere):
    """Put something that is no regular file in a place."""
    if what == "link":
        path.symlink_to(elsewhere)
    elif what == "dangling link":
        path.symlink_to(elsewhere.with_name("nothing"))
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.relpath(path))  # an address has 108 bytes
    elif what == "folder":
        path.mkdir()


IRREGULAR = ("link", "dangling link", "pipe", "socket", "folder")


@posix
@pytest.mark.parametrize("what", IRREGULAR)
def test_what_is_no_regular_file_is_neither_replaced_nor_read(path, tmp_path, what):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    lay(what, path, elsewhere)
    before = path.lstat()
    with pytest.raises(OSError, match=r"not replaced"):
        replace_file(path, "new")
    with pytest.raises(OSError, match=r"link|regular|directory|No such device"):
        read_regular(path, 100)
    assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert elsewhere.read_text() == "mine"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")  # noqa: PTH110
def test_a_device_is_not_replaced():
    with pytest.raises(OSError, match="not replaced"):
        replace_file(Path("/dev/full"), "new")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)  # noqa: PTH116


def test_a_users_own_file_beside_it_stays(path):
    own = path.with_suffix(".part")
    own.write_text("mine")
    replace_file(path, "new")
    assert own.read_text() == "mine"


@posix
@pytest.mark.parametrize("what", ["link", "dangling link", "pipe", "socket"])
def test_what_lies_where_the_text_is_written_first_is_not_written_to(path, tmp_path, what):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    elsewhere.chmod(0o644)
    lay(what, path.with_name(f"{path.name}.part"), elsewhere)
    replace_file(path, "new")
    assert path.read_text() == "new"
    assert stat.S_ISREG(path.lstat().st_mode)
    assert (elsewhere.read_text(), stat.S_IMODE(elsewhere.stat().st_mode)) == ("mine", 0o644)
    assert sorted(each.name for each in tmp_path.iterdir()) == [path.name, "elsewhere"]


def test_reading_is_bounded(path):
    path.write_bytes(b"x" * 10)
    assert read_regular(path, 10) == b"x" * 10
    with pytest.raises(OSError, match="more than 9 bytes"):
        read_regular(path, 9)


@posix
def test_the_file_is_synced_before_it_is_renamed_and_the_folder_after(path, monkeypatch):
    done, sync, replace = [], os.fsync, Path.replace

    def synced(handle):
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    def replaced(part, target):
        done.append("rename")
        return replace(part, target)

    monkeypatch.setattr(files.os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    replace_file(path, "new")
    assert done == ["file", "rename", "folder"]


def test_a_write_that_fails_changes_nothing_and_says_so(path, monkeypatch):
    replace_file(path, "old")
    fail_for(stat.S_ISREG, monkeypatch)
    with pytest.raises(OSError, match="No space left") as caught:
        replace_file(path, "new")
    assert not isinstance(caught.value, NotSyncedError)
    assert path.read_text(encoding="utf-8") == "old"
    assert list(path.parent.iterdir()) == [path]
    assert not_written(path, caught.value) == f"{path} can't be written; it is as it was: {caught.value}"


@posix
def test_a_folder_that_cannot_be_synced_is_not_told_as_a_write_that_did_not_happen(path, monkeypatch):
    replace_file(path, "old")
    fail_for(stat.S_ISDIR, monkeypatch)
    with pytest.raises(NotSyncedError, match="No space left") as caught:
        replace_file(path, "new")
    assert caught.value.errno == 28
    assert path.read_text(encoding="utf-8") == "new"
    assert not_written(path, caught.value) == (
        f"{path} was written, but a power cut may bring back what it was: {caught.value}"
    )


REWRITE = """
import sys
from pathlib import Path
from jeeves_reflexion.files import replace_file
texts = [letter * 300_000 for letter in "ab"]
replace_file(Path(sys.argv[1]), texts[0])
print("writing", flush=True)
while True:
    for text in texts:
        replace_file(Path(sys.argv[1]), text)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_writer_killed_at_any_moment_leaves_a_whole_file(path):
    for wait in (0.0, 0.01, 0.03):
        with subprocess.Popen([sys.executable, "-c", REWRITE, path], stdout=subprocess.PIPE) as writer:
            writer.stdout.readline()
            try:
                writer.wait(wait)
            except subprocess.TimeoutExpired:
                writer.kill()
        assert path.read_text(encoding="utf-8") in ("a" * 300_000, "b" * 300_000)
    replace_file(path, "after")
    assert list(path.parent.iterdir()) == [path]
