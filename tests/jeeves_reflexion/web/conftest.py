"""What the tests of the page share: the command that shows a library and a run, and a browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from page_parts import Server, beside, fill, play, served, with_lessons

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("page")
    beside(with_lessons, folder / "lessons", fill, {})
    beside(play, folder / "runs" / "first")
    with served(folder) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (on Debian: apt-get install chromium)")
    sync_api = pytest.importorskip("playwright.sync_api")
    options = [
        "--no-sandbox",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    """A tab that was let in; what a script of the page fails on fails the test."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(30_000)
    failed: list[str] = []
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.goto(server.url)
    yield page
    context.close()
    assert failed == []
