"""What all tests share."""

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run every asynchronous test on both event loops."""
    backend: str = request.param
    return backend
