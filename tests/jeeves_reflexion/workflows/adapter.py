"""The adapter for cases as data: ``python run_cases.py CASES.yaml --adapter adapter:adapter`` in this folder."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from jeeves_reflexion import ConfigurationError, ModelTimeoutError, ScriptedModel
from jeeves_reflexion.sandbox import Sandbox
from jeeves_reflexion.workflows import (
    ReflectionFailedError,
    Tools,
    reflection_correct,
    reflection_evaluate,
    reflection_loop,
)

_KINDS = {
    "runtime": RuntimeError,
    "key": KeyError,
    "value": ValueError,
    "type": TypeError,
    "timeout": ModelTimeoutError,
}
_UNSET = object()


class Script:
    """Gives the entries of a script in turn, the last one for ever, and counts."""

    def __init__(self, entries: list[Any]) -> None:
        self.entries = entries
        self.calls = 0

    def next(self) -> Any:
        entry = self.entries[min(self.calls, len(self.entries) - 1)]
        self.calls += 1
        if isinstance(entry, dict) and set(entry) == {"raise"}:
            raise _KINDS.get(entry["raise"]["kind"], RuntimeError)(entry["raise"]["message"])
        return entry


class Speakers:
    """Models by whatever name, all speaking from one script; keeps what they were asked."""

    def __init__(self, replies: list[Any]) -> None:
        self.script = Script(replies or ["no script"])
        self.asked: list[dict[str, Any]] = []

    def __call__(self, name: str) -> ScriptedModel:
        def answer(messages: Any) -> str:
            roles = [message.role for message in messages]
            self.asked.append({"model": name, "roles": roles, "text": messages[-1].content})
            return self.script.next()

        return ScriptedModel(answer, name=name)


@contextmanager
def _folder(files: dict[str, Any]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        for name, content in files.items():
            path = Path(made) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        yield Path(made)


class Adapter:
    """One method per operation."""

    def op_loop(self, given: dict[str, Any]) -> dict[str, Any]:
        return anyio.run(_loop, given)

    def op_evaluate(self, given: dict[str, Any]) -> dict[str, Any]:
        return anyio.run(_evaluate, given)

    def op_correct(self, given: dict[str, Any]) -> dict[str, Any]:
        return anyio.run(_correct, given)


async def _loop(given: dict[str, Any]) -> dict[str, Any]:
    state = given.get("state", {})
    before = copy.deepcopy(state)
    speakers = Speakers(given.get("llm_script", []))
    saw: list[dict[str, Any]] = []
    scripts: dict[str, Script] = {}

    def step(name: str) -> Any:
        spec = given.get(name)
        if not isinstance(spec, dict) or "script" not in spec:
            return spec
        script = scripts[name] = Script(spec["script"])

        def take(seen: dict[str, Any]) -> Any:
            if name == "corrector":
                saw.append({**_saw(seen), "iteration": seen["reflection_iteration"]})
            return script.next()["return"]

        return take

    generator, corrector, evaluator = step("generator"), step("corrector"), given["evaluator"]
    if evaluator.get("type") == "scripted":
        verdicts = Script(evaluator["script"])
        evaluator = lambda output, state: verdicts.next()  # noqa: E731
    options = {key: given[key] for key in ("max_iterations", "on_failure") if key in given}
    result, raised = None, None
    with _folder(given.get("files", {})) as folder:
        tools = _tools(speakers, folder)
        try:
            result = await reflection_loop(
                state, generator=generator, evaluator=evaluator, corrector=corrector, tools=tools, **options
            )
        except ReflectionFailedError as error:
            raised = {"kind": "reflection_failed", "message": str(error), "history": list(error.history)}
        except Exception as error:  # noqa: BLE001 - it is what the case is about
            raised = _raised(error)
    return {
        "result": result,
        "raised": raised,
        "calls": {name: scripts[name].calls if name in scripts else 0 for name in ("generator", "corrector")},
        "corrector_saw": saw,
        "prompts": speakers.asked,
        "caller_state_unchanged": state == before,
    }


async def _evaluate(given: dict[str, Any]) -> dict[str, Any]:
    speakers = Speakers(given.get("llm_script", []))
    rows = []
    with _folder(given.get("files", {})) as folder:
        for row in given.get("rows", [{}]):
            case = {**given, **row}
            data = case.get("data", _UNSET)
            one: dict[str, Any] = {"raised": None}
            try:
                one |= await reflection_evaluate(
                    case.get("state", {}),
                    evaluator=_evaluation(case),
                    tools=_tools(speakers, folder),
                    **({} if data is _UNSET else {"data": data}),
                )
            except Exception as error:  # noqa: BLE001 - it is what the case is about
                one["raised"] = _raised(error)
            rows.append({**one, "data_after": None if data is _UNSET else data})
    return {"rows": rows, "prompts": speakers.asked}


async def _correct(given: dict[str, Any]) -> dict[str, Any]:
    speakers = Speakers(given.get("llm_script", []))
    saw: list[dict[str, Any]] = []
    corrector: Any = None
    if "script" in given:
        script = Script(given["script"])

        def corrector(seen: dict[str, Any]) -> Any:
            saw.append(_saw(seen))
            return script.next()["return"]

    elif "prompt" in given:
        corrector = {"action": "llm.call", **{key: given[key] for key in ("prompt", "model") if key in given}}
    chosen = {key: given[key] for key in ("data", "errors") if key in given}
    with _folder(given.get("files", {})) as folder:
        result = await reflection_correct(
            given.get("state", {}), corrector=corrector, tools=_tools(speakers, folder), **chosen
        )
    return {"result": result, "saw": saw, "prompts": speakers.asked}


_EVALUATORS = {"llm": ("prompt", "model", "examples"), "custom": ("run", "language"), "schema": ("schema",)}


def _evaluation(case: dict[str, Any]) -> Any:
    kind = case.get("evaluator_type", "schema")
    return {"type": kind, **{key: case[key] for key in _EVALUATORS.get(kind, ()) if key in case}}


def _saw(state: dict[str, Any]) -> dict[str, Any]:
    errors = [error["message"] for error in state["reflection_errors"]]
    return {"output": state["reflection_output"], "errors": errors}


def _raised(error: Exception) -> dict[str, Any]:
    kind = "config" if isinstance(error, ConfigurationError) else "other"
    return {"kind": kind, "message": str(error), "history": None}


def _tools(speakers: Speakers, folder: Path) -> Tools:
    # Weaker isolation will do: the code of these cases is ours.
    return Tools(
        model=speakers("default"), models=speakers, sandbox=Sandbox(allow_weaker=True), base_folder=folder
    )


def adapter() -> Adapter:
    return Adapter()
