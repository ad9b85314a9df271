"""Carries out one step: code, an action, or a function; and ``llm.call``, the action that asks a model."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping

from jeeves_reflexion.callables import run
from jeeves_reflexion.models.ask import ask
from jeeves_reflexion.protocols import Completion, Message, Sampling
from jeeves_reflexion.types import JSON
from jeeves_reflexion.values import is_number
from jeeves_reflexion.workflows.errors import WorkflowError
from jeeves_reflexion.workflows.parts import LLM_CALL, REFLECTION, CallStep, CodeStep, Place, Step, near
from jeeves_reflexion.workflows.templates import render, render_text
from jeeves_reflexion.workflows.toolbox import Toolbox
from jeeves_reflexion.workflows.values import NoJSONError, State, as_text, produced, shown, whole_text


async def output_of(
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
    seen = copy.deepcopy(dict(state))
    if not isinstance(step, CallStep):
        whose, value = getattr(step, "__name__", type(step).__name__), await run(step, lambda: step(seen))
    else:
        check_action(step, toolbox)
        if step.action == LLM_CALL:
            return await llm_call(step, state, toolbox)
        whose, action = f"the action {step.action}", toolbox.tools.actions[step.action]
        parameters = await _parameters(step, state)
        value = await run(action, functools.partial(action, seen, parameters))
    try:
        return produced(value)
    except NoJSONError as error:
        raise WorkflowError(f"{whose} returned what is no JSON: {error}") from error


def check_action(step: CallStep, toolbox: Toolbox) -> None:
    """Raise :class:`WorkflowFileError` if there is no such action."""
    if step.action == LLM_CALL or step.action in toolbox.tools.actions:
        return
    known = [LLM_CALL, *REFLECTION, *toolbox.tools.actions]
    others = f": there is {', '.join(known)}; add your own with register_action"
    raise step.place.error(f"there is no action {step.action!r}{near(step.action, known, otherwise=others)}")


async def _parameters(step: CallStep, state: State) -> dict[str, JSON]:
    return {
        key: await render(copy.deepcopy(item), state, str(step.place.of(key)))
        for key, item in step.parameters.items()
    }


async def llm_call(step: CallStep, state: State, toolbox: Toolbox) -> dict[str, JSON]:
    """Ask a model; returns ``{"content", "model", "finish_reason", "usage": {"input_tokens", "output_tokens"}}``.

    Raises ``ModelError``, and :class:`WorkflowFileError` for parameters that are wrong once they are filled in.
    """
    place, texts = step.place, ("system", "prompt")
    given: dict[str, JSON] = {}
    for key, item in step.parameters.items():
        where = str(place.of(key))
        if key in texts and isinstance(item, str):
            given[key] = await render_text(item, state, where)
        else:
            given[key] = await render(item, state, where)
    name, temperature, tokens = given.get("model"), given.get("temperature"), given.get("max_tokens")
    if name is not None and not isinstance(name, str):
        raise place.of("model").error(f"must be the name of a model, not {shown(name)}")
    if temperature is not None and not (is_number(temperature) and 0 <= temperature <= 2):
        raise place.of("temperature").error(f"must be a number from 0 to 2, not {shown(temperature)}")
    if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1):
        raise place.of("max_tokens").error(f"must be a whole number of at least 1, not {shown(tokens)}")
    sampling = None
    if temperature is not None or tokens is not None:
        sampling = Sampling(temperature=temperature, max_tokens=tokens)
    completion = await ask_model(toolbox, name, state, _messages(given, place), sampling)
    usage = completion.usage
    return {
        "content": whole_text(completion.text),
        "model": completion.model,
        "finish_reason": completion.finish_reason,
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
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


def _messages(given: Mapping[str, JSON], place: Place) -> list[Message]:
    system, prompt, listed = given.get("system"), given.get("prompt"), given.get("messages")
    found = [Message("system", system)] if isinstance(system, str) else []
    if isinstance(prompt, str):
        return [*found, Message("user", prompt)]
    if not isinstance(listed, list) or not listed:
        raise place.error("llm.call needs a prompt that is a text, or messages: a list of role and content")
    for number, item in enumerate(listed):
        match item:
            case {"role": "system" | "user" | "assistant" as role, "content": content, **rest} if not rest:
                found.append(Message(role, as_text(content)))
            case _:
                said = f"must be a role (system, user, assistant) and a content, not {shown(item)}"
                raise place.of("messages", number).error(said)
    return found
