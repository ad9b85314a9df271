"""The lock under which the files beside a database are renamed and overwritten."""

import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from vectorstores._folder import held

SHORT = 0.05


@pytest.fixture
def lock(tmp_path) -> Path:
    return tmp_path / "files.lock"


def handles() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_it_keeps_out_other_threads_and_those_who_use_filelock(lock):
    inside, most, counted = 0, 0, 0

    def enter(number: int) -> None:
        nonlocal inside, most, counted
        for _ in range(20):
            with held(lock, 30) if number % 2 else FileLock(lock, poll_interval=0.001):
                inside += 1
                most = max(most, inside)
                counted += 1
                time.sleep(0.0005)
                inside -= 1

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, counted) == (1, 80)


def test_who_waits_in_vain_is_told_which_file_and_how_long(lock):
    with held(lock, SHORT):
        with (
            pytest.raises(TimeoutError, match=r"files\.lock has been held .* for 0\.05 s"),
            held(lock, SHORT),
        ):
            pass
        with pytest.raises(Timeout), FileLock(lock, timeout=SHORT):
            pass
    with FileLock(lock), pytest.raises(TimeoutError), held(lock, SHORT):
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="open files are counted in /proc")
def test_it_is_let_go_of_after_an_error_and_the_file_is_the_users_alone(lock):
    with pytest.raises(ZeroDivisionError), held(lock, SHORT):
        raise ZeroDivisionError
    with held(lock, SHORT):
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    before = handles()
    for _ in range(20):
        with held(lock, SHORT):
            pass
    assert handles() == before


def test_a_process_that_is_killed_lets_go_of_it(lock):
    code = (
        "import sys, time; from pathlib import Path; from vectorstores._folder import held\n"
        "with held(Path(sys.argv[1]), 5): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(lock)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    with holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(TimeoutError), held(lock, SHORT):
            pass
        holder.send_signal(signal.SIGKILL)
    with held(lock, 5):
        pass


def test_a_folder_that_is_gone_is_an_error_of_the_system(lock):
    with pytest.raises(FileNotFoundError), held(lock.parent / "gone" / "files.lock", SHORT):
        pass
