"""Runs one step (code, an action, a function or ``llm.call``), and judges an output by an evaluator."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self, TypeAlias, TypeVar

import anyio
import anyio.to_thread

from jeeves_reflexion.callables import run
from jeeves_reflexion.errors import HOPELESS, ConfigurationError
from jeeves_reflexion.models import open_model
from jeeves_reflexion.models.ask import ask, ask_and_read
from jeeves_reflexion.protocols import ChatModel, Completion, Message, Sampling
from jeeves_reflexion.sandbox import Sandbox
from jeeves_reflexion.session import Session, logger
from jeeves_reflexion.text import read_prompt
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows import schemas
from jeeves_reflexion.workflows.documents import Place
from jeeves_reflexion.workflows.errors import TemplateError, WorkflowError
from jeeves_reflexion.workflows.plan import LLM_CALL, REFLECTION, Function, Judgement, Part, check_shape
from jeeves_reflexion.workflows.templates import render
from jeeves_reflexion.workflows.values import (
    NoJSONError,
    State,
    as_text,
    near,
    produced,
    text_of,
    whole_text,
)
from jeeves_reflexion.workflows.verdicts import Verdict, of_code, of_reply, refusal

T = TypeVar("T")

OwnAction: TypeAlias = "Callable[[dict[str, JSON], dict[str, JSON]], JSON | Awaitable[JSON]]"
"""A user's action: takes a copy of the state and its parameters, and returns its result."""

Models: TypeAlias = Mapping[str, ChatModel] | Callable[[str], ChatModel]

FATAL = (*HOPELESS, TemplateError)
"""Errors that another attempt of a loop would not help, so that they end the workflow."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What a caller gives to a workflow.

    ``models`` maps the names that steps use to models, or is a function that does. ``model`` is used for every other
    name, and for steps without a name. Without it, a name is opened at the OpenAI-compatible endpoint of the
    environment. Code runs in ``sandbox``, by default one with the default limits. ``$ref`` finds files in
    ``base_folder``. A step that takes longer than ``step_seconds`` fails.
    """

    model: ChatModel | str | None = None
    models: Models | None = None
    sandbox: Sandbox | None = None
    base_folder: Path | None = None
    actions: Mapping[str, OwnAction] = field(default_factory=dict)
    step_seconds: float = 300.0


class Toolbox:
    """The tools of one run. It opens missing models when they are first needed, and closes them at the end."""

    def __init__(self, tools: Tools | None = None, session: Session | None = None) -> None:
        self.tools = tools or Tools()
        self.session = session or Session()
        self._closing = AsyncExitStack()
        self._opened: dict[str, ChatModel] = {}
        self._sandbox = self.tools.sandbox or Sandbox()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._closing.aclose()

    def model(self, name: str | None, state: State) -> ChatModel:
        """Return the model for a step: the one it names, else the state's ``llm_model``, else the run's model."""
        of_state = state.get("llm_model")
        chosen = name or (of_state if isinstance(of_state, str) else "")
        models, model = self.tools.models, self.tools.model
        if chosen and callable(models):
            return models(chosen)
        if chosen and isinstance(models, Mapping) and chosen in models:
            return models[chosen]
        if model is not None and not isinstance(model, str):
            return model
        chosen = model or chosen
        if not chosen:
            raise ConfigurationError(
                "no model is named: name one in the step or in the state's llm_model, or pass model="
            )
        if chosen not in self._opened:
            opened = self._opened[chosen] = open_model(chosen)
            close = getattr(opened, "aclose", None)
            if inspect.iscoroutinefunction(close):
                self._closing.push_async_callback(close)
        return self._opened[chosen]

    async def ask(
        self, name: str | None, state: State, messages: Sequence[Message], sampling: Sampling | None = None
    ) -> Completion:
        """Ask the model that a step names, and charge it to the run."""
        model = self.model(name, state)
        with self.session.acting_as("agent"):
            return await ask(model, messages, sampling=sampling)

    def action(self, step: Part) -> OwnAction | None:
        """Return the action that a step names, None for ``llm.call``. Raises :class:`WorkflowFileError`."""
        actions = self.tools.actions
        if step.kind == LLM_CALL or step.kind in actions:
            return actions.get(step.kind)
        known = [LLM_CALL, *REFLECTION, *actions]
        others = f": the actions are {', '.join(known)}; add your own with register_action"
        raise step.place.error(f"there is no action {step.kind!r}{near(step.kind, known, otherwise=others)}")

    async def run_code(self, part: Part, inputs: Mapping[str, JSON]) -> JSON:
        """Run the code of a part and return its value. Raises what ``Sandbox.run`` raises."""
        language = part.given.get("language", "python")
        ran = await self._sandbox.run(part.given["run"], language=language, inputs=inputs)
        return _checked(ran.value, f"{part.place}: the code")

    async def filled(
        self, given: Mapping[str, Any], state: State, place: Place, *, texts: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return parameters with their templates filled in; those named in ``texts`` become texts."""
        result: dict[str, Any] = {}
        for key, item in given.items():
            as_value = key not in texts or not isinstance(item, str)
            result[key] = await render(item, state, str(place.of(key)), as_value=as_value)
        return result

    async def in_time(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the result of a call. Raises :class:`WorkflowError` after the time limit of a step."""
        seconds = self.tools.step_seconds
        with anyio.move_on_after(seconds):
            return await call()
        raise WorkflowError(f"it took longer than {seconds:g} s")


# -- steps

_STEADY: Final = Sampling(temperature=0.0)
_AGAIN: Final = (
    'Answer with one JSON object: {"valid": true or false, "score": 0 to 1,'
    ' "reason": "...", "suggestions": []}'
)


async def output_of(
    step: Part | Function, state: State, toolbox: Toolbox, *, extra: Mapping[str, JSON] | None = None
) -> JSON:
    """Return the output of a step, which is the model's text for ``llm.call``.

    ``extra`` has inputs for code besides ``state``.
    """
    value = await perform(step, state, toolbox, extra=extra)
    if isinstance(step, Part) and step.kind == LLM_CALL and isinstance(value, Mapping):
        return value["content"]
    return value


async def perform(
    step: Part | Function, state: State, toolbox: Toolbox, *, extra: Mapping[str, JSON] | None = None
) -> JSON:
    """Return the result of a step, as a node stores it. Raises what the step raises."""
    copied = copy.deepcopy(dict(state))
    if not isinstance(step, Part):
        whose, value = getattr(step, "__name__", type(step).__name__), await run(step, lambda: step(copied))
    elif not step.kind:
        return await toolbox.run_code(step, {"state": copied, **(extra or {})})
    else:
        action = toolbox.action(step)
        if action is None:
            return await _call_model(step, state, toolbox)
        parameters = copy.deepcopy(await toolbox.filled(step.given, state, step.place))
        whose = f"the action {step.kind}"
        value = await run(action, functools.partial(action, copied, parameters))
    return _checked(value, whose)


def _checked(value: object, whose: str) -> JSON:
    try:
        return produced(value)
    except NoJSONError as error:
        raise WorkflowError(f"{whose} returned a value that is not JSON: {error}") from error


async def _call_model(step: Part, state: State, toolbox: Toolbox) -> dict[str, JSON]:
    """Ask a model. Returns ``{"content", "model", "finish_reason", "usage": {"input_tokens", "output_tokens"}}``.

    Raises ``ModelError``, and :class:`WorkflowFileError` if the parameters are wrong once they are filled in.
    """
    filled = await toolbox.filled(step.given, state, step.place, texts=("system", "prompt"))
    given: dict[str, Any] = check_shape(filled, "llm_call", step.place)
    asked = given.get("messages") or [{"role": "user", "content": given["prompt"]}]
    if given.get("system") is not None:
        asked = [{"role": "system", "content": given["system"]}, *asked]
    messages = [Message(each["role"], as_text(each["content"])) for each in asked]
    sampling = Sampling(temperature=given.get("temperature"), max_tokens=given.get("max_tokens"))
    completion = await toolbox.ask(given.get("model"), state, messages, sampling)
    usage = completion.usage
    return {
        "content": whole_text(completion.text),
        "model": completion.model,
        "finish_reason": completion.finish_reason,
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
    }


# -- judging


async def judge(evaluator: Part | Judgement, output: JSON, state: State, toolbox: Toolbox) -> Verdict:
    """Return the verdict on an output; ``state`` holds it as ``reflection_output``.

    If an evaluator fails, because a model can't be reached or code crashes, the verdict approves nothing. Errors that
    another attempt would not help are raised.
    """
    try:
        return await toolbox.in_time(lambda: _judge(evaluator, output, state, toolbox))
    except FATAL:
        raise
    except Exception as error:  # noqa: BLE001 - it becomes the verdict, and is logged
        logger.warning("an evaluator failed in run %s: %s", toolbox.session.id, type(error).__name__)
        return refusal(f"the evaluator failed: {type(error).__name__}: {error}", output)


async def _judge(evaluator: Part | Judgement, output: JSON, state: State, toolbox: Toolbox) -> Verdict:
    if not isinstance(evaluator, Part):
        given = functools.partial(evaluator, copy.deepcopy(output), copy.deepcopy(dict(state)))
        value = await run(evaluator, given)
        return of_code(_checked(value, "it"), output)
    if evaluator.kind == "custom":
        inputs: dict[str, JSON] = {"output": output, "state": dict(state)}
        return of_code(await toolbox.run_code(evaluator, inputs), output)
    if evaluator.kind == "schema":
        schema, folder = evaluator.given["schema"], toolbox.tools.base_folder
        if isinstance(schema, str):
            schema = await render(schema, state, str(evaluator.place.of("schema")))
        return await anyio.to_thread.run_sync(schemas.judged, schema, folder, output, abandon_on_cancel=True)

    asked = {key: evaluator.given[key] for key in ("prompt", "model") if evaluator.given.get(key) is not None}
    filled = await toolbox.filled(asked, state, evaluator.place, texts=("prompt", "model"))
    messages = [Message("system", read_prompt(None, "jeeves_reflexion.workflows", "judge.md"))]
    for number, example in enumerate(evaluator.given.get("examples", ()), 1):
        if "input" in example and "output" in example:
            messages.append(Message("user", text_of(example["input"])))
            messages.append(Message("assistant", text_of(example["output"])))
        else:
            logger.warning("%s: example %d is left out: it needs input and output", evaluator.place, number)
    messages.append(Message("user", as_text(filled["prompt"])))

    def read(completion: Completion) -> tuple[Verdict | None, str]:
        found = of_reply(completion.text, output)
        return found, "" if found else "it holds no verdict"

    call = functools.partial(toolbox.ask, filled.get("model"), state, sampling=_STEADY)
    verdict, _ = await ask_and_read(call, messages, read, form=_AGAIN)
    return verdict or refusal("the judge's reply could not be read, so nothing is approved", output)
