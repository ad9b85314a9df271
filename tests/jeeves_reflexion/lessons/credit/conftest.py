"""What is noted and added up is the same on each event loop: one is enough here."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
