"""Work in the background: one task that fails takes none of the others with it."""

from __future__ import annotations

import threading

from vectorstores.sqlite_faiss.background import Background


def test_work_that_fails_is_told_and_the_rest_is_done(caplog):
    later, done = Background("tests-later"), threading.Event()

    def fail() -> None:
        raise ValueError("something that nobody thought of")

    later.do("first", fail)
    later.do("second", done.set, delay=0.05)
    assert done.wait(30)
    again = threading.Event()
    later.do("third", again.set)
    assert again.wait(30)
    later.close()
    (record,) = caplog.records
    assert "first" in record.getMessage()
    assert "something that nobody thought of" in str(record.exc_info)
