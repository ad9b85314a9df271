"""The sandbox: runs untrusted code."""

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
    """Runs untrusted code, each time in a new process.

    Parameters
    ----------
    limits
        The limits of a run, unless ``run`` is given others.
    allow_weaker
        Run code under resource limits alone if network, files or processes can't be isolated. Without it, such a
        machine is refused with :class:`SandboxUnavailableError`.
    concurrency
        How many runs may go on at once; others wait. By default the number of processors.

    It may be used as an async context manager, but leaves nothing open after a run. Use it in one event loop at a time.
    """

    def __init__(
        self,
        limits: SandboxLimits | None = None,
        *,
        allow_weaker: bool = False,
        concurrency: int | None = None,
    ) -> None:
        if concurrency is not None:
            concurrency = check_whole("Sandbox: concurrency", concurrency)
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
        """Run ``code`` and return its outcome. Inputs and values are JSON.

        Python: the names of ``inputs`` are globals. The value is what a ``return`` at top level returns, else the
        global ``result`` after the run, else None.
        Lua: the same (5.x of the installed ``lupa``). ``null`` stands for JSON null inside tables. An empty table is an
        empty list; ``object(t)`` and ``array(t)`` mark a table as an object or a list.
        Prolog: the code is a program. The goal is ``evaluate(Output, State, Result)`` if the code defines it (for the
        inputs ``output`` and ``state``), else ``result(Inputs, Result)``, else ``result(Result)``. JSON objects are
        dicts, JSON strings are strings.

        Raises
        ------
        ConfigurationError
            An input is not JSON, its name is not an identifier, or the language is unknown.
        SandboxUnavailableError
            This machine can't isolate code, or the language's runtime (``lupa``, ``swipl``) is not installed.
        CodeError
            The code raised, ended its process, could not be read, or made a value that is not JSON.
        CodeLimitError
            The code reached a limit.
        """
        if language not in get_args(Language):
            raise ConfigurationError(
                f"language must be one of {', '.join(get_args(Language))}, not {language!r}"
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
        """Run two Python programs at once, each isolated, and return the outcome of ``code``.

        A channel joins them: each reads at descriptor 6 what the other writes at descriptor 7. They can't reach each
        other in any other way, so ``code`` may judge what ``other`` answers. Both have the same limits, but ``other``
        is ended soon after ``code``. The value and the errors of ``other`` are not reported.

        Raises
        ------
        ConfigurationError, SandboxUnavailableError, CodeError, CodeLimitError
            As :meth:`run` raises them, for ``code``.
        SandboxError
            One of the two could not be run.
        """
        requests = _request(code, inputs or {}), _request(other, other_inputs or {})
        limits = limits or self._limits
        guarantees = await self._guarantees()
        async with self._turns:
            return judged(await _run_joined(guarantees.way, requests, limits), limits)

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


async def _run_joined(way: str, requests: tuple[bytes, bytes], limits: SandboxLimits) -> Report:
    """Run in two jails at once, each of which reads what the other writes; return the report on the first.

    The second has a moment longer.
    """
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
            os.close(end)  # so that each notices when the other ends

    reports: dict[int, Report] = {}
    errors: list[SandboxError] = []
    second_ended = anyio.Event()

    async def run(number: int) -> None:
        try:
            reports[number] = await (other if number else one).run(requests[number])
        except SandboxError as error:
            errors.append(error)
        if number:
            second_ended.set()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(run, 1)
            await run(0)
            with anyio.move_on_after(_AFTER_SECONDS):
                await second_ended.wait()  # its channel is closed, so it ends soon, unless it is busy
            group.cancel_scope.cancel()
    finally:
        await other.close()  # run(1) never closes it if it is cancelled before its first step
    if errors:
        raise errors[0]  # such an error says nothing about the code
    return reports[0]


def _request(code: str, inputs: Mapping[str, JSON]) -> bytes:
    for name in inputs:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise ConfigurationError(f"sandbox: the name of an input must be an identifier, not {name!r}")
    try:
        code.encode()
        given = {name: _plain(value) for name, value in inputs.items()}
        for name, value in given.items():
            messages.encode(value, f"inputs[{name!r}]")
    except UnicodeEncodeError as error:
        raise ConfigurationError(f"sandbox: the code is not valid text: {error.reason}") from error
    except ValueError as error:
        raise ConfigurationError(f"sandbox: {error}") from error
    except RecursionError as error:
        raise ConfigurationError("sandbox: the inputs are nested too deeply") from error
    return json.dumps({"code": code, "inputs": given}).encode()


def _plain(value: JSON) -> object:
    """Return a value with mappings of any kind as dicts."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
