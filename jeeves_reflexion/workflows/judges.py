"""The three evaluators of a workflow: by schema, by a model's word, by code; and a function of one's own."""

from __future__ import annotations

import copy
import functools

import anyio.to_thread

from jeeves_reflexion.callables import run
from jeeves_reflexion.protocols import Message, Sampling
from jeeves_reflexion.session import logger
from jeeves_reflexion.text import read_prompt
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows.parts import (
    LANGUAGES,
    CodeEvaluation,
    Evaluation,
    ModelEvaluation,
    SchemaEvaluation,
)
from jeeves_reflexion.workflows.schemas import judged
from jeeves_reflexion.workflows.steps import ask_model
from jeeves_reflexion.workflows.templates import render, render_text
from jeeves_reflexion.workflows.toolbox import FATAL, Toolbox
from jeeves_reflexion.workflows.values import NoJSONError, State, as_text, plain, text_of
from jeeves_reflexion.workflows.verdicts import Verdict, of_code, of_reply, refusal

_STEADY = Sampling(temperature=0.0)
_AGAIN = (
    'Your answer could not be read. Answer with one JSON object: {"valid": true or false, "score": 0 to 1,'
    ' "reason": "...", "suggestions": []}'
)


async def judge(evaluation: Evaluation, output: JSON, state: State, toolbox: Toolbox) -> Verdict:
    """Return the verdict on an output; ``state`` holds it as ``reflection_output``.

    An evaluator that fails, such as a model that can't be reached or code that crashes, approves nothing: that is a
    verdict too. What no retry would mend is raised.
    """
    try:
        return await toolbox.in_time(lambda: _judge(evaluation, output, state, toolbox))
    except FATAL:
        raise
    except Exception as error:  # noqa: BLE001 - it becomes the verdict, and is logged
        logger.warning("an evaluator failed in run %s: %s", toolbox.session.id, type(error).__name__)
        return refusal(f"the evaluator failed: {type(error).__name__}: {error}", output)


async def _judge(evaluation: Evaluation, output: JSON, state: State, toolbox: Toolbox) -> Verdict:
    if isinstance(evaluation, SchemaEvaluation):
        return await _by_schema(evaluation, output, state, toolbox)
    if isinstance(evaluation, ModelEvaluation):
        return await _by_model(evaluation, output, state, toolbox)
    if isinstance(evaluation, CodeEvaluation):
        return await _by_code(evaluation, output, state, toolbox)
    value = await run(
        evaluation, functools.partial(evaluation, copy.deepcopy(output), copy.deepcopy(dict(state)))
    )
    try:
        return of_code(plain(value), output)
    except NoJSONError as error:
        return refusal(f"the evaluator returned what is no JSON: {error}", output)


async def _by_schema(evaluation: SchemaEvaluation, output: JSON, state: State, toolbox: Toolbox) -> Verdict:
    if evaluation.schema is None:
        return refusal("there is no schema to judge by: give one as `schema`", output)
    schema: JSON = evaluation.schema
    if isinstance(schema, str):
        schema = await render(schema, state, str(evaluation.place))
    folder = toolbox.tools.base_folder
    return await anyio.to_thread.run_sync(judged, schema, folder, output, abandon_on_cancel=True)


async def _by_code(evaluation: CodeEvaluation, output: JSON, state: State, toolbox: Toolbox) -> Verdict:
    if evaluation.language not in LANGUAGES:
        return refusal(
            f"there is no language {evaluation.language!r}: it is one of {', '.join(LANGUAGES)}", output
        )
    inputs = {"output": output, "state": dict(state)}
    value = await toolbox.run_code(evaluation.code, evaluation.language, inputs, str(evaluation.place))
    return of_code(value, output)


async def _by_model(evaluation: ModelEvaluation, output: JSON, state: State, toolbox: Toolbox) -> Verdict:
    place, name = evaluation.place, evaluation.model
    if name is not None:
        name = as_text(await render(name, state, str(place.of("model"))))
    question = await render_text(evaluation.prompt, state, str(place.of("prompt")))
    system = read_prompt(None, "jeeves_reflexion.workflows", "judge.md")
    messages = [Message("system", system), *_shots(evaluation), Message("user", question)]
    for _ in range(2):
        completion = await ask_model(toolbox, name, state, messages, _STEADY)
        verdict = of_reply(completion.text, output)
        if verdict is not None:
            return verdict
        messages = [*messages, Message("assistant", completion.text), Message("user", _AGAIN)]
    return refusal("the judge's reply could not be read, so nothing is approved", output)


def _shots(evaluation: ModelEvaluation) -> list[Message]:
    shots: list[Message] = []
    for number, example in enumerate(evaluation.examples):
        if "input" not in example or "output" not in example:
            logger.warning(
                "%s: example %d is left out: it needs input and output", evaluation.place, number + 1
            )
            continue
        shots.append(Message("user", text_of(example["input"])))
        shots.append(Message("assistant", text_of(example["output"])))
    return shots
