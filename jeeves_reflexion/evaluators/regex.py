"""Checks that an output matches a pattern, or does not."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import anyio

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import Attempt, Evaluation, Task

_BACKTRACKS = re.compile(r"[*+?{|]")
# Runs in an interpreter of its own: matching holds the GIL, so a thread could not be timed out and the loop would stop.
_SEARCH = """
import json, re, sys
pattern, text = json.load(sys.stdin)
print(int(re.search(pattern, text) is not None))
"""


class RegexCheck:
    """Searches the output for a pattern: scores 1.0 if it is found, else 0.0, the reverse with ``must_match=False``.

    Flags are part of the pattern: ``(?im)``. ``message`` is the issue reported for a score of 0.0. A pattern that could
    backtrack is matched in a process of its own (about 20 ms), which is killed after ``timeout`` seconds; the output is
    then unscored. Raises :class:`ConfigurationError` for an invalid pattern.
    """

    def __init__(
        self,
        pattern: str,
        *,
        must_match: bool = True,
        message: str = "",
        timeout: float = 5.0,
    ) -> None:
        if not isinstance(pattern, str):
            raise ConfigurationError(f"the pattern must be a text, not {pattern!r}")
        try:
            self._pattern = re.compile(pattern)
        except (re.error, ValueError, RecursionError, OverflowError) as error:
            raise ConfigurationError(
                f"the pattern {pattern!r} is not a regular expression: {error}"
            ) from error
        if not timeout > 0:
            raise ConfigurationError(f"timeout must be above 0 seconds, not {timeout!r}")
        self._wanted = bool(must_match)
        self._message = message
        self._timeout = timeout

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Return the verdict on an output."""
        found: bool | str = f"took longer than {self._timeout:g} s"
        # A frozen program is its own sys.executable, and would be started a second time.
        has_interpreter = sys.executable and not getattr(sys, "frozen", False)
        if not (has_interpreter and _BACKTRACKS.search(self._pattern.pattern)):
            found = self._pattern.search(attempt.output) is not None
        else:
            material = json.dumps([self._pattern.pattern, attempt.output]).encode()
            command = [sys.executable, "-I", "-S", "-c", _SEARCH]
            with anyio.move_on_after(self._timeout):
                try:
                    done = await anyio.run_process(command, input=material, stderr=subprocess.DEVNULL)
                    found = int(done.stdout) == 1
                except (OSError, subprocess.CalledProcessError) as error:
                    found = f"could not be matched: {error}"

        short = abridge(repr(self._pattern.pattern), 80)
        if isinstance(found, str):
            problem = f"the pattern {short} {found}"
            return Evaluation(None, rationale=problem, issues=(problem,), confidence=0.0)
        if found is self._wanted:
            return Evaluation(1.0, passed=True, confidence=1.0)
        issue = (
            self._message or f"the pattern {short} {'does not occur' if self._wanted else 'may not occur'}"
        )
        return Evaluation(0.0, passed=False, rationale=issue, issues=(issue,), confidence=1.0)
