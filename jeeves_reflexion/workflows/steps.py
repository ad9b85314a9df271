"""Carries out one step: code, an action, or a function; and ``llm.call``, the action that asks a model."""

from __future__ import annotations

import copy
import difflib
import functools
from collections.abc import Mapping

from jeeves_reflexion.callables import run
from jeeves_reflexion.models.ask import ask
from jeeves_reflexion.protocols import Completion, Message, Sampling
from jeeves_reflexion.types import JSON
from jeeves_reflexion.values import is_number
from jeeves_reflexion.workflows.errors import WorkflowError
from jeeves_reflexion.workflows.plan import CallStep, CodeStep, Place, Step
from jeeves_reflexion.workflows.reading_parts import LLM_CALL, REFLECTION
from jeeves_reflexion.workflows.templates import render, render_text
from jeeves_reflexion.workflows.toolbox import Toolbox
from jeeves_reflexion.workflows.values import NoJSONError, State, as_text, produced, shown, whole_text


async def take(
    step: Step, state: State, toolbox: Toolbox, *, extra: Mapping[str, JSON] | None = None
) -> JSON:
    """Return what a step comes to as an output: of ``llm.call`` that is the model's text.

    ``extra`` are more names for code, beside ``state``.
    """
    value = await perform(step, state, toolbox, extra=extra)
    if isinstance(step, CallStep) and step.action == LLM_CALL and isinstance(value, Mapping):
        return value["content"]
    return value


async def perform(
    step: Step, state: State, toolbox: Toolbox, *, extra: Mapping[str, JSON] | None = None
) -> JSON:
    """Return the result of a step, as a node stores it. What the step raises is raised."""
    if isinstance(step, CodeStep):
        inputs = {"state": dict(state), **(extra or {})}
        return await toolbox.run_code(step.code, step.language, inputs, str(step.place))
    if isinstance(step, CallStep):
        return await _call(step, state, toolbox)
    value = await run(step, functools.partial(step, copy.deepcopy(dict(state))))
    return _result(value, getattr(step, "__name__", type(step).__name__))


def check_action(step: CallStep, toolbox: Toolbox) -> None:
    """Raise :class:`WorkflowFileError` if there is no such action."""
    if step.action == LLM_CALL or step.action in toolbox.tools.actions:
        return
    known = [LLM_CALL, *REFLECTION, *toolbox.tools.actions]
    near = difflib.get_close_matches(step.action, known, 1)
    hint = (
        f"did you mean {near[0]!r}?"
        if near
        else f"there is {', '.join(known)}; add your own with register_action"
    )
    raise step.place.error(f"there is no action {step.action!r}: {hint}")


async def _call(step: CallStep, state: State, toolbox: Toolbox) -> JSON:
    check_action(step, toolbox)
    if step.action == LLM_CALL:
        return await llm_call(step.parameters, state, toolbox, step.place)
    action = toolbox.tools.actions[step.action]
    parameters = {
        key: await render(item, state, str(step.place.of(key))) for key, item in step.parameters.items()
    }
    value = await run(
        action, functools.partial(action, copy.deepcopy(dict(state)), copy.deepcopy(parameters))
    )
    return _result(value, f"the action {step.action}")


def _result(value: object, whose: str) -> JSON:
    try:
        return produced(value)
    except NoJSONError as error:
        raise WorkflowError(f"{whose} returned what is no JSON: {error}") from error


async def llm_call(
    parameters: Mapping[str, JSON], state: State, toolbox: Toolbox, place: Place
) -> dict[str, JSON]:
    """Ask a model; returns ``{"content", "model", "finish_reason", "usage": {"input_tokens", "output_tokens"}}``.

    Raises ``ModelError``, and :class:`WorkflowFileError` for parameters that are wrong once they are filled in.
    """
    name = parameters.get("model")
    if name is not None:
        name = await render(name, state, str(place.of("model")))
        if not isinstance(name, str):
            raise place.of("model").error(f"must be the name of a model, not {shown(name)}")
    messages = await _messages(parameters, state, place)
    sampling = await _sampling(parameters, state, place)
    completion = await ask_model(toolbox, name, state, messages, sampling)
    usage: JSON = {
        "input_tokens": completion.usage.input_tokens,
        "output_tokens": completion.usage.output_tokens,
    }
    return {
        "content": whole_text(completion.text),
        "model": completion.model,
        "finish_reason": completion.finish_reason,
        "usage": usage,
    }


async def ask_model(
    toolbox: Toolbox,
    name: str | None,
    state: State,
    messages: list[Message],
    sampling: Sampling | None = None,
) -> Completion:
    """Ask the model that a step names, charged to the run."""
    model = toolbox.model(name, state)
    with toolbox.session.acting_as("agent"):
        return await ask(model, messages, sampling=sampling)


async def _messages(parameters: Mapping[str, JSON], state: State, place: Place) -> list[Message]:
    found: list[Message] = []
    if isinstance(system := parameters.get("system"), str):
        found.append(Message("system", await render_text(system, state, str(place.of("system")))))
    prompt = parameters.get("prompt")
    if isinstance(prompt, str):
        return [*found, Message("user", await render_text(prompt, state, str(place.of("prompt"))))]
    given = await render(parameters.get("messages"), state, str(place.of("messages")))
    if not isinstance(given, list) or not given:
        raise place.error("llm.call needs a prompt that is a text, or messages: a list of role and content")
    return found + [_message(item, place.of("messages", number)) for number, item in enumerate(given)]


def _message(item: JSON, place: Place) -> Message:
    match item:
        case {"role": "system" | "user" | "assistant" as role, "content": content, **rest} if not rest:
            return Message(role, as_text(content))
    raise place.error(f"must be a role (system, user, assistant) and a content, not {shown(item)}")


async def _sampling(parameters: Mapping[str, JSON], state: State, place: Place) -> Sampling | None:
    temperature, tokens = [
        await render(parameters.get(key), state, str(place.of(key))) for key in ("temperature", "max_tokens")
    ]
    if temperature is None and tokens is None:
        return None
    if temperature is not None and not (is_number(temperature) and 0 <= temperature <= 2):
        raise place.of("temperature").error(f"must be a number from 0 to 2, not {shown(temperature)}")
    if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1):
        raise place.of("max_tokens").error(f"must be a whole number of at least 1, not {shown(tokens)}")
    return Sampling(temperature=temperature, max_tokens=tokens)
