"""The process that plays: JSON requests on standard input, JSON replies on standard output, one per line.

Requests: ``{"open": path}`` starts a game, ``{"begin": {...}}`` starts one from its data if the file is on another
machine, and ``{"step": command}`` gives a command. Replies: ``{"text": ..., "won": ..., "admissible": [...]}`` or
``{"error": ...}``. Nothing else of a game crosses the pipe.
:mod:`benchmarks.alfworld.pool` starts this process; it ends when its standard input ends.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO

from . import speedups
from .engine import Engine, EngineState
from .failures import EngineError, GameFileError


def serve(requests: queue.SimpleQueue[bytes], replies: BinaryIO, engine: Engine) -> None:
    """Answer requests until the process ends."""
    while True:
        answer = _answer(json.loads(requests.get()), engine)
        replies.write(json.dumps(answer).encode() + b"\n")
        replies.flush()


def main() -> None:
    """Serve the parent process."""
    # Ctrl-C in a terminal reaches every process there, but the parent decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = _take_standard_output()
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    speedups.install()
    serve(requests, replies, Engine())


def _read(requests: queue.SimpleQueue[bytes]) -> None:
    for line in sys.stdin.buffer:
        requests.put(line)
    # The parent has closed the pipe or is gone: end even in the middle of a game.
    os._exit(0)


def _take_standard_output() -> BinaryIO:
    # TextWorld and its planner print to standard output, from Python and from C, so the replies need their own pipe.
    # What is printed goes to standard error, which the parent keeps for the report of a crash.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return replies


def _answer(request: dict[str, Any], engine: Engine) -> dict[str, object]:
    try:
        if "open" in request:
            return _reply(engine.open(Path(request["open"])))
        if "begin" in request:
            return _reply(engine.begin(request["begin"]))
        return _reply(engine.step(request["step"]))
    except (GameFileError, EngineError) as error:
        return {"error": str(error), "file": isinstance(error, GameFileError)}
    except Exception as error:  # noqa: BLE001 - handed to the parent, which raises it there
        return {"error": f"{type(error).__name__}: {error}"}


def _reply(state: EngineState) -> dict[str, object]:
    return {"text": state.feedback, "won": state.won, "admissible": state.admissible}


if __name__ == "__main__":
    main()
