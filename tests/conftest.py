"""What all tests share."""

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_works() -> None:
    """Have Ctrl-C reach the processes that tests start, also where a shell began the tests in the background.

    Such a shell has them ignore it, and so would everything below.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run every asynchronous test on both event loops."""
    backend: str = request.param
    return backend
