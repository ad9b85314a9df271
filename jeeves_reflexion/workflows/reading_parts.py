"""Reads the parts that nodes are made of: steps, evaluators, texts; also for who gives them in code."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows import templates
from jeeves_reflexion.workflows.plan import (
    LANGUAGES,
    CallStep,
    CodeEvaluation,
    CodeStep,
    Evaluation,
    ModelEvaluation,
    Place,
    SchemaEvaluation,
    Step,
)
from jeeves_reflexion.workflows.schema_process import check_in_time
from jeeves_reflexion.workflows.values import strings

LLM_CALL: Final = "llm.call"
LLM_KEYS: Final = ("model", "prompt", "messages", "system", "temperature", "max_tokens")
REFLECTION: Final = ("reflection.loop", "reflection.evaluate", "reflection.correct")

CONTROL_KEYS: Final = frozenset(
    {
        "success",
        "valid",
        "exhausted",
        "reflection_iteration",
        "reflection_output",
        "reflection_errors",
        "reflection_history",
        "reflection_best",
        "reflection_best_score",
        # Which model is asked is not for the text of a model to say.
        "llm_model",
        "llm_provider",
    }
)
"""Keys that a generated output never overwrites, in the loop's result or in the state."""

_KINDS: Final = {
    "schema": ("schema",),
    "llm": ("prompt", "model", "examples"),
    "custom": ("run", "language"),
}


def is_control(key: str) -> bool:
    """Whether a key is the loop's own."""
    return key in CONTROL_KEYS


def fields(
    value: JSON, place: Place, *, required: tuple[str, ...] = (), known: tuple[str, ...] = ()
) -> Mapping[str, JSON]:
    """Return a mapping that has the required keys and, beside them, known ones alone."""
    if not isinstance(value, Mapping):
        kind = "nothing" if value is None else "a list" if isinstance(value, list) else f"{value!r}"[:60]
        wanted = ", ".join((*required, *known))
        raise place.error(f"must be a mapping with {wanted}, not {kind}")
    allowed = (*required, *known)
    for key in value:
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(allowed)}"
            raise place.of(key).error(f"unknown key {key!r}: {hint}")
    for key in required:
        if key not in value:
            raise place.error(f"{key} is missing")
    return value


def text(given: Mapping[str, JSON], key: str, place: Place, *, default: str | None = None) -> str:
    """Return a text; raises where it is none, or is missing without a default."""
    value = given.get(key, default)
    if isinstance(value, str):
        return value
    if key not in given:
        raise place.error(f"{key} is missing")
    raise place.of(key).error(f"must be a text, not {'empty' if value is None else repr(value)[:60]}")


def check_templates(value: JSON, place: Place) -> None:
    """Raise if a text in a value is no template that can be read."""
    for each in strings(value):
        templates.check(each, str(place))


def read_step(value: JSON, place: Place) -> Step:
    """Read a generator or a corrector: ``action`` with its parameters, or ``run``."""
    if not isinstance(value, Mapping) or ("run" in value) == ("action" in value):
        raise place.error("must have either action (with its parameters) or run (code)")
    if "run" in value:
        fields(value, place, required=("run",), known=("language",))
        return code_step(value, place)
    given = {key: item for key, item in value.items() if key != "action"}
    return call_step(text(value, "action", place), given, place, place.of("action"))


def code_step(value: Mapping[str, JSON], place: Place) -> CodeStep:
    """Read ``run`` and ``language``."""
    code, language = text(value, "run", place), _language(value, place)
    if not code.strip():
        raise place.of("run").error("there is no code")
    return CodeStep(code, language, place.of("run"))


def _language(value: Mapping[str, JSON], place: Place) -> str:
    language = text(value, "language", place, default="python")
    if language not in LANGUAGES:
        near = difflib.get_close_matches(language, LANGUAGES, 1)
        hint = f": did you mean {near[0]!r}?" if near else ""
        raise place.of("language").error(f"must be one of {', '.join(LANGUAGES)}, not {language!r}{hint}")
    return language


def call_step(action: str, given: Mapping[str, JSON], place: Place, named: Place) -> CallStep:
    """Read the call of an action; whether it is registered shows when the workflow runs."""
    if action in REFLECTION:
        raise named.error(f"{action} is an action of nodes: give it to `uses`")
    if not action.strip():
        raise named.error("the action has no name")
    for key, item in given.items():
        check_templates(item, place.of(key))
    if action == LLM_CALL:
        fields(given, place, known=LLM_KEYS)
        if ("prompt" in given) == ("messages" in given):
            raise place.error("llm.call takes either prompt or messages")
    return CallStep(action, given, place)


def read_evaluation(value: JSON, place: Place, *, named: str = "type") -> Evaluation:
    """Read an evaluator: ``type`` and what belongs to it."""
    if not isinstance(value, Mapping):
        raise place.error("must be a mapping with type, and what that type takes")
    if "type" not in value:
        raise place.error(f"{named} is missing: one of {', '.join(_KINDS)}")
    kind = value["type"]
    if not isinstance(kind, str) or kind not in _KINDS:
        near = difflib.get_close_matches(str(kind), _KINDS, 1)
        hint = f": did you mean {near[0]!r}?" if near else ""
        raise place.of(named).error(f"must be one of {', '.join(_KINDS)}, not {kind!r}{hint}")
    allowed = _KINDS[kind]
    given = {key: item for key, item in value.items() if key != "type"}
    for key in given:
        if key not in allowed and any(key in keys for keys in _KINDS.values()):
            raise place.of(key).error(
                f"belongs to another type of evaluator; {kind} takes {', '.join(allowed)}"
            )
    fields(given, place, required=allowed[:1], known=allowed[1:])
    if kind == "schema":
        return _schema(given["schema"], place)
    if kind == "llm":
        return _model(given, place)
    code = code_step(given, place)
    return CodeEvaluation(code.code, code.language, code.place)


def _schema(schema: JSON, place: Place) -> SchemaEvaluation:
    mine = place.of("schema")
    if isinstance(schema, str):
        if not templates.is_template(schema):
            raise mine.error("must be a mapping; for a file write {$ref: file.json}")
        templates.check(schema, str(mine))
    else:
        check_in_time(schema, str(mine))
    return SchemaEvaluation(schema, mine)


def _model(given: Mapping[str, JSON], place: Place) -> ModelEvaluation:
    prompt = text(given, "prompt", place)
    check_templates(prompt, place.of("prompt"))
    model = text(given, "model", place, default="") or None
    check_templates(model, place.of("model"))
    examples = given.get("examples") or []
    if not isinstance(examples, list):
        raise place.of("examples").error("must be a list of mappings with input and output")
    pairs = [
        fields(item, place.of("examples", number), required=("input", "output"))
        for number, item in enumerate(examples)
    ]
    return ModelEvaluation(prompt, model, tuple(pairs), place)
