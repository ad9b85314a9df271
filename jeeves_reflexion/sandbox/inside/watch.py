"""Watching the processes of the code from outside, and ending them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time

from . import frames

TYPE_CHECKING = False  # the module typing is not loaded where the code runs unless it asks for it
if TYPE_CHECKING:
    from typing import Any

    from .worker import Ends

HOST_IN = 0
_CLEANING_SECONDS = 5.0
_PART = 1 << 16


class Watch:
    """Our view of the code's processes: what they print, when they end, and how to end them (by the guard)."""

    def __init__(self, limits: dict[str, Any], guard: int, life: int, ends: Ends) -> None:
        self._limits = limits
        self._guard = guard
        self._life = life
        self._ends = ends
        self._told = b""
        self._read = {ends.stdout: bytearray(), ends.stderr: bytearray(), ends.result: bytearray()}
        self._limit: str | None = None
        self._host_gone = False

    def until_ready(self) -> str:
        """Wait until the code's process is shut in; return the problem if it could not be."""
        while True:
            ready = select.select([self._ends.status, HOST_IN], [], [])[0]
            if self._ends.status in ready:
                part = os.read(self._ends.status, _PART)
                self._told += part
                told = self._messages()
                if "problem" in told:
                    return str(told["problem"])
                if "ended" in told or not part:
                    return "the process of the code ended before it was ready"
                if "ready" in told:
                    return ""
            else:  # the host speaks again only after "ready"
                return "the host is gone"

    def run(self, request: bytes) -> tuple[dict[str, Any], bytes, bytes, bytes] | None:
        """Hand over the request, watch until the end, and report; ``None`` when the host is gone."""
        begun = time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # it ended already; how, it says below
            frames.send(self._ends.request, frames.packed(request))
        os.close(self._ends.request)
        self._until_end(begun + self._limits["seconds"])
        seconds = time.monotonic() - begun
        self.end()
        if self._host_gone:
            return None
        self._drain()
        told = self._messages()
        head = {
            "limit": self._limit,
            "status": told.get("ended"),
            "cpu": told.get("cpu", 0.0),
            "seconds": seconds,
        }
        out, error, result = (bytes(self._read[end]) for end in self._order())
        return head, result, out, error

    def end(self) -> None:
        """End all processes of the code, and wait until they are gone."""
        if not self._guard:
            return
        os.close(self._life)
        if not self._guard_ends():
            os.kill(self._guard, signal.SIGKILL)
        os.waitpid(self._guard, 0)
        self._guard = 0

    def _guard_ends(self) -> bool:
        """Wait for the guard, which is the last that holds the other end of the status pipe."""
        until = time.monotonic() + _CLEANING_SECONDS
        while select.select([self._ends.status], [], [], max(0, until - time.monotonic()))[0]:
            part = os.read(self._ends.status, _PART)
            if not part:
                return True
            self._told += part
        return False

    def _order(self) -> tuple[int, int, int]:
        return self._ends.stdout, self._ends.stderr, self._ends.result

    def _until_end(self, deadline: float) -> None:
        watched = {*self._read, self._ends.status, HOST_IN}
        while self._ends.status in watched:
            left = deadline - time.monotonic()
            if left <= 0:
                self._limit = "seconds"
                return
            for end in select.select(list(watched), [], [], left)[0]:
                part = os.read(end, _PART)
                if not part:
                    watched.discard(end)
                if end == HOST_IN:
                    self._host_gone = True
                    return
                if end == self._ends.status:
                    self._told += part
                    if "full" in self._messages():
                        self._limit = "file_bytes"
                        return
                    if "ended" in self._messages():
                        return
                elif self._full(end, part):
                    return

    def _full(self, end: int, part: bytes) -> bool:
        """Keep what was read; whether it is more than the code may write."""
        self._read[end] += part
        out, error, result = (len(self._read[end]) for end in self._order())
        if max(out + error, result) > self._limits["output_bytes"]:
            self._limit = "output_bytes"
            return True
        return False

    def _drain(self) -> None:
        """Read what is still in the pipes, now that nobody can write to them any more."""
        for end in self._order():
            while self._limit is None and select.select([end], [], [], 0)[0]:
                part = os.read(end, _PART)
                if not part:
                    break
                self._full(end, part)

    def _messages(self) -> dict[str, Any]:
        told: dict[str, Any] = {}
        for line in self._told.split(b"\n")[:-1]:
            told.update(json.loads(line))
        return told
