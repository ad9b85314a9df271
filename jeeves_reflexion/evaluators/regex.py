"""A pattern that an output must match, or must not."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Sequence

import anyio

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import Attempt, Evaluation, Task

_FLAGS = {
    name: getattr(re, name)
    for name in ("A", "ASCII", "I", "IGNORECASE", "M", "MULTILINE", "S", "DOTALL", "X", "VERBOSE")
}
_FOUND = Evaluation(1.0, passed=True, confidence=1.0)
_BACKTRACKS = re.compile(r"[*+?{|]")
# An interpreter of its own: matching holds the GIL, so that no thread could be timed out, nor an event loop go on.
_COUNT = """
import itertools, json, re, sys
pattern, flags, text, most = json.load(sys.stdin)
print(sum(1 for _ in itertools.islice(re.finditer(pattern, text, flags), most)))
"""


class RegexCheck:
    """Counts the matches of a pattern in the output: 1.0 where there are as many as wanted, else 0.0.

    ``flags`` are names of :mod:`re` (``IGNORECASE`` or ``I``, ...). With ``must_match`` there must be at least
    ``min_count`` matches (1) and at most ``max_count`` (any number); where ``max_count`` alone is given, none will do
    too. Without ``must_match`` there must be none. ``message`` is the issue where the count is wrong. A pattern that
    could backtrack is matched in a process of its own (some 20 ms), which is ended after ``timeout`` seconds: then
    the output can't be scored. Raises :class:`ConfigurationError` for a pattern that is none, and counts that
    contradict one another.
    """

    def __init__(
        self,
        pattern: str,
        *,
        flags: str | Sequence[str] = (),
        must_match: bool = True,
        min_count: int | None = None,
        max_count: int | None = None,
        message: str = "",
        timeout: float = 5.0,
    ) -> None:
        self._flags = _flags_of(flags)
        try:
            self._pattern = re.compile(pattern, self._flags)
        except (re.error, TypeError, ValueError, RecursionError, OverflowError) as error:
            raise ConfigurationError(f"the pattern {pattern!r} is no regular expression: {error}") from error
        if not isinstance(self._pattern.pattern, str):
            raise ConfigurationError(f"the pattern {pattern!r} must be a text, not bytes")
        if not must_match and (min_count is not None or max_count is not None):
            raise ConfigurationError("must_match=False wants no match at all: drop min_count and max_count")
        least = (1 if max_count is None else 0) if min_count is None else min_count
        self._least, self._most = (least, max_count) if must_match else (0, 0)
        for name, count in (("min_count", min_count), ("max_count", max_count)):
            if count is not None and (not isinstance(count, int) or count < 0):
                raise ConfigurationError(f"{name} must be a whole number of at least 0, not {count!r}")
        if self._most is not None and self._least > self._most:
            raise ConfigurationError(f"min_count {self._least} is above max_count {self._most}")
        if not timeout > 0:
            raise ConfigurationError(f"timeout must be above 0 seconds, not {timeout!r}")
        self._message = message
        self._timeout = timeout

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Return whether the output has as many matches as wanted."""
        enough = self._least if self._most is None else self._most + 1
        if enough == 0:
            return _FOUND
        count = await self._count(attempt.output, enough)
        if isinstance(count, str):
            said = f"the pattern {self._short} {count}"
            return Evaluation(None, rationale=said, issues=(said,), confidence=0.0)
        if self._least <= count and (self._most is None or count <= self._most):
            return _FOUND
        said = self._message or self._said(count)
        return Evaluation(0.0, passed=False, rationale=said, issues=(said,), confidence=1.0)

    @property
    def _short(self) -> str:
        return abridge(repr(self._pattern.pattern), 80)

    def _said(self, count: int) -> str:
        if self._most is not None and count > self._most:
            wanted = f"at most {self._most} times" if self._most else "not at all"
            return f"the pattern {self._short} occurs more often than it may: {wanted}"
        if count == 0:
            return f"the pattern {self._short} does not occur"
        return f"the pattern {self._short} occurs {count} times, fewer than {self._least}"

    async def _count(self, text: str, enough: int) -> int | str:
        """Count matches up to ``enough``; a text says why they couldn't be counted."""
        if not _BACKTRACKS.search(self._pattern.pattern) or not _has_interpreter():
            return sum(1 for _ in itertools.islice(self._pattern.finditer(text), enough))
        material = json.dumps([self._pattern.pattern, self._flags, text, enough]).encode()
        command = [sys.executable, "-I", "-S", "-c", _COUNT]
        with anyio.move_on_after(self._timeout):
            try:
                done = await anyio.run_process(command, input=material, stderr=subprocess.DEVNULL)
            except (OSError, subprocess.CalledProcessError) as error:
                return f"could not be matched: {error}"
            return int(done.stdout)
        return f"took longer than {self._timeout:g} s"


def _has_interpreter() -> bool:
    # A frozen program is its own sys.executable, and would be started a second time.
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def _flags_of(names: str | Sequence[str]) -> int:
    flags = 0
    for name in [names] if isinstance(names, str) else names:
        flag = _FLAGS.get(name.upper().removeprefix("RE.")) if isinstance(name, str) else None
        if flag is None:
            raise ConfigurationError(f"unknown flag {name!r} of a pattern: known are {', '.join(_FLAGS)}")
        flags |= int(flag)
    return flags
