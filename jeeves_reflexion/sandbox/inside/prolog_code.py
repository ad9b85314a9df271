"""Running Prolog through ``swipl``: loaded and called under its ``library(sandbox)``, in a process under our limits."""

from __future__ import annotations

import json
import os
import signal

from . import frames, values

TYPE_CHECKING = False  # the module typing is not loaded where the code runs unless it asks for it
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

_RESULT_FILE = "result.json"


def serve(
    config: dict[str, Any], shut_in: Callable[..., None], result: int, request: int, status: int
) -> NoReturn:
    """Start the process that becomes ``swipl``, give it the request's files when both are ready, pass on its result."""
    go_read, go_write = os.pipe()
    child = os.fork()
    if not child:
        os.close(go_write)
        _become_swipl(config, shut_in, go_read, (result, request, status))
    os.close(go_read)
    os.close(status)
    asked = frames.receive_json(request)
    if asked is None:
        os._exit(0)
    _write("harness.pl", config["harness"])
    _write("code.pl", asked["code"])
    _write("inputs.json", json.dumps(asked["inputs"]))
    os.write(go_write, b"go")
    os.close(go_write)
    _, ended = os.waitpid(child, 0)
    if os.WIFSIGNALED(ended):
        number = os.WTERMSIG(ended)
        signal.signal(number, signal.SIG_DFL) if number not in {signal.SIGKILL, signal.SIGSTOP} else None
        os._exit(128 + number)
    try:
        with open(_RESULT_FILE, "rb") as file:  # noqa: PTH123
            answer = file.read(config["resources"]["output_bytes"] + 1)
    except FileNotFoundError:
        os._exit(os.WEXITSTATUS(ended))
    frames.send(result, answer)
    os._exit(0)


def _become_swipl(
    config: dict[str, Any], shut_in: Callable[..., None], go: int, others: tuple[int, int, int]
) -> NoReturn:
    _, _, status = others
    try:
        shut_in(config, programs=True)
    except BaseException as error:  # noqa: BLE001  told to the host, which raises it
        frames.send(status, json.dumps({"problem": str(error) or type(error).__name__}).encode() + b"\n")
        os._exit(1)
    frames.send(status, b'{"ready": true}\n')
    for descriptor in others:
        os.close(descriptor)
    if not os.read(go, 2):
        os._exit(1)
    os.close(go)
    stack = max(16, config["resources"]["memory_bytes"] // (2 * 1024 * 1024))
    program = config["program"]
    arguments = [
        program,
        "-q",
        "-f",
        "none",
        "-F",
        "none",
        "--no-tty",
        "--no-debug",
        f"--stack-limit={stack}m",
    ]
    try:
        os.execve(program, [*arguments, "-g", "main", "-t", "halt(1)", "harness.pl"], dict(os.environ))  # noqa: S606
    except OSError as error:
        answer = {"kind": "raised", "type": "OSError", "message": f"swipl did not start: {error}"}
        _write(_RESULT_FILE, '{"error": ' + values.encode(answer, "error").decode() + "}")
        os._exit(1)


def _write(name: str, text: str) -> None:
    with open(name, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text)
