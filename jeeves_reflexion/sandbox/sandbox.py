"""Running code in a sandbox."""

from __future__ import annotations

import json
import keyword
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Self, get_args

import anyio
import anyio.to_thread

from jeeves_reflexion.errors import ConfigurationError, SandboxError, SandboxUnavailableError
from jeeves_reflexion.sandbox.guarantees import Guarantees, probe
from jeeves_reflexion.sandbox.inside import messages
from jeeves_reflexion.sandbox.jail import Jail, runtime
from jeeves_reflexion.sandbox.limits import Language, Ran, Report, SandboxLimits, judged
from jeeves_reflexion.types import JSON
from jeeves_reflexion.values import check_whole

_AFTER_SECONDS = 2.0


class Sandbox:
    """Runs code that nobody trusts, each time in a process of its own.

    Parameters
    ----------
    limits
        What a run may use up unless ``run`` is given other limits.
    allow_weaker
        Run code also where network, files or processes can't be isolated, under resource limits alone. Without it
        such a machine is refused with :class:`SandboxUnavailableError`.
    concurrency
        How many runs may go on at once; further ones wait. By default the number of processors.

    It may be used as an async context manager; nothing of it is left open after a run. One event loop at a time.
    """

    def __init__(
        self,
        limits: SandboxLimits | None = None,
        *,
        allow_weaker: bool = False,
        concurrency: int | None = None,
    ) -> None:
        if concurrency is not None:
            check_whole("Sandbox: concurrency", concurrency)
        self._limits = limits or SandboxLimits()
        self._allow_weaker = allow_weaker
        self._turns = anyio.Semaphore(concurrency or os.cpu_count() or 1)

    async def run(
        self,
        code: str,
        *,
        language: Language = "python",
        inputs: Mapping[str, JSON] | None = None,
        limits: SandboxLimits | None = None,
    ) -> Ran:
        """Run ``code`` and return what it came to.

        Python: the names of ``inputs`` are globals; the value is what a ``return`` at top level returns, else the
        global called ``result`` after the run, else ``None``.
        Lua: the same (5.x of the installed ``lupa``); ``null`` stands for JSON null inside tables, an empty table is
        an empty list, ``object(t)`` and ``array(t)`` say which one a table is.
        Prolog: the code is a program. The goal is ``evaluate(Output, State, Result)`` when it defines that (``inputs``
        ``output`` and ``state``), else ``result(Inputs, Result)``, else ``result(Result)``; JSON objects are dicts,
        JSON strings are strings.

        Values cross as JSON only.

        Raises
        ------
        ConfigurationError
            Inputs that are no JSON or whose names are no identifiers, an unknown language.
        SandboxUnavailableError
            This machine can't isolate code, or the language's runtime (``lupa``, ``swipl``) is not installed.
        CodeError
            The code raised, ended its process, could not be read, or made a value that is no JSON.
        CodeLimitError
            The code reached a limit.
        """
        if language not in get_args(Language):
            raise ConfigurationError(
                f"language is {language!r}, but must be one of {', '.join(get_args(Language))}"
            )
        request = _request(code, inputs or {})
        limits = limits or self._limits
        guarantees = await self._guarantees()
        needed = await anyio.to_thread.run_sync(runtime, language, abandon_on_cancel=True)
        async with self._turns:
            jail = await Jail.start(guarantees.way, needed, limits)
            return judged(await jail.run(request), limits)

    async def run_pair(
        self,
        code: str,
        other: str,
        *,
        inputs: Mapping[str, JSON] | None = None,
        other_inputs: Mapping[str, JSON] | None = None,
        limits: SandboxLimits | None = None,
    ) -> Ran:
        """Run two programs in Python at once, each shut in by itself, and return what ``code`` came to.

        A channel joins them: each reads at descriptor 6 what the other writes at descriptor 7. Nothing else of one
        can be reached by the other, so ``code`` may judge what ``other`` answers. Both have the same limits, but that
        of time is the one of ``code``: ``other`` is ended soon after it. Of its own value and errors nothing is told.

        Raises
        ------
        ConfigurationError, SandboxUnavailableError, CodeError, CodeLimitError
            As :meth:`run` does, of ``code``.
        SandboxError
            One of the two could not be run.
        """
        requests = _request(code, inputs or {}), _request(other, other_inputs or {})
        limits = limits or self._limits
        guarantees = await self._guarantees()
        async with self._turns:
            jails = await _joined(guarantees.way, limits)
            return judged(await _run_joined(jails, requests), limits)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def _guarantees(self) -> Guarantees:
        guarantees = await anyio.to_thread.run_sync(probe, abandon_on_cancel=True)
        if not guarantees.complete and not self._allow_weaker:
            raise SandboxUnavailableError(
                f"this machine can't isolate untrusted code:\n{guarantees.text}\n"
                "Allow user namespaces (or Landlock) here, or pass allow_weaker=True for code that you trust."
            )
        return guarantees


async def _joined(way: str, limits: SandboxLimits) -> tuple[Jail, Jail]:
    """Start two jails, each with the ends of two pipes: what it reads the other writes."""
    one_reads, other_writes = os.pipe()
    other_reads, one_writes = os.pipe()
    try:
        one = await Jail.start(way, runtime("python"), limits, channel=(one_reads, one_writes))
        try:
            longer = replace(limits, seconds=limits.seconds + _AFTER_SECONDS)
            other = await Jail.start(way, runtime("python"), longer, channel=(other_reads, other_writes))
        except BaseException:
            await one.close()
            raise
    finally:
        for end in (one_reads, other_writes, other_reads, one_writes):
            os.close(end)  # theirs alone now, so that each notices when the other ends
    return one, other


async def _run_joined(jails: tuple[Jail, Jail], requests: tuple[bytes, bytes]) -> Report:
    """Run in both at once and return the report on the first; the second has a moment after that."""
    reports: dict[int, Report] = {}
    errors: list[SandboxError] = []
    second_ended = anyio.Event()

    async def run(number: int) -> None:
        try:
            reports[number] = await jails[number].run(requests[number])
        except SandboxError as error:
            errors.append(error)
        if number:
            second_ended.set()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(run, 1)
            await run(0)
            with anyio.move_on_after(_AFTER_SECONDS):
                await second_ended.wait()  # the channel is closed, so it ends, unless it is busy
            group.cancel_scope.cancel()
    finally:
        await jails[1].close()  # a task that is cancelled before its first step never runs
    if errors:
        raise errors[0]  # never a verdict on the code
    return reports[0]


def _request(code: str, inputs: Mapping[str, JSON]) -> bytes:
    for name in inputs:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise ConfigurationError(f"sandbox: {name!r} can't be the name of an input")
    try:
        code.encode()
        given = {name: _plain(value) for name, value in inputs.items()}
        for name, value in given.items():
            messages.encode(value, f"inputs[{name!r}]")
    except UnicodeEncodeError as error:
        raise ConfigurationError(f"sandbox: the code is no text: {error.reason}") from error
    except ValueError as error:
        raise ConfigurationError(f"sandbox: {error}") from error
    except RecursionError as error:
        raise ConfigurationError("sandbox: the inputs are nested too deeply") from error
    return json.dumps({"code": code, "inputs": given}).encode()


def _plain(value: JSON) -> object:
    """Return mappings of any kind as the one that JSON knows."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
