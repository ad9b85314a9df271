"""The contents of a workflow file: its nodes, their steps and evaluators, and their routes.

``workflow.schema.json``, which editors use too, describes the shape of a file. What a schema can't describe, such as
whether a template is well formed, is checked when the parts are made.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final, TypeAlias

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows import schemas, templates
from jeeves_reflexion.workflows.documents import Document, Place
from jeeves_reflexion.workflows.values import NoJSONError, State, near, plain, shown

LLM_CALL: Final = "llm.call"
REFLECTION: Final = ("reflection.loop", "reflection.evaluate", "reflection.correct")
END: Final = "__end__"

CONTROL_KEYS: Final = frozenset(
    {
        *("success", "valid", "exhausted", "reflection_iteration", "reflection_output", "reflection_errors"),
        *("reflection_history", "reflection_best", "reflection_best_score"),
        *("llm_model", "llm_provider"),  # a model's output must not choose the next model
    }
)
"""Keys that a generated output never overwrites, in the loop's result or in the state."""


@dataclass(frozen=True)
class Part:
    """A checked step or evaluator of a file.

    ``kind`` is the action that a step calls ("" for code), or the type of an evaluator; ``given`` has its parameters.
    """

    kind: str
    given: Mapping[str, Any]
    place: Place


Function: TypeAlias = "Callable[[State], JSON | Awaitable[JSON]]"
"""A step as a function: takes a copy of the state and returns its output."""

Judgement: TypeAlias = "Callable[[JSON, State], JSON | Awaitable[JSON]]"
"""An evaluator as a function: takes the output and a copy of the state, and returns what custom code may return."""


def as_step(given: Mapping[str, Any], place: Place) -> Part:
    """Check the templates of a generator or a corrector, whose shape was checked, and return it as a part."""
    if "run" in given:
        return Part("", given, place)
    parameters = {key: given[key] for key in given if key != "action"}
    _check_templates(parameters, place)
    return Part(given["action"], parameters, place)


def as_evaluator(given: Mapping[str, Any], place: Place) -> Part:
    """Check the templates and the schema of an evaluator, whose shape was checked, and return it as a part."""
    if given["type"] == "llm":
        _check_templates({key: given.get(key) for key in ("prompt", "model")}, place)
    elif isinstance(given.get("schema"), str):
        _check_templates({"schema": given["schema"]}, place)
    elif given["type"] == "schema":
        try:
            tried = schemas.judged(given["schema"], place.document.folder, None)
        except ConfigurationError as error:
            raise place.of("schema").error(str(error)) from error
        if not tried.made:
            raise place.of("schema").error(tried.errors[0].message)
    return Part(given["type"], given, place)


def _check_templates(parameters: Mapping[str, Any], place: Place) -> None:
    for key, value in parameters.items():
        templates.check(value, str(place.of(key)))


# -- nodes


@dataclass(frozen=True)
class Route:
    """A node to go to, and the condition for it: true, false or an expression of the state."""

    to: str
    condition: JSON
    place: Place


@dataclass(frozen=True)
class Node:
    """One node. The first route whose condition holds says where to go next; without one, the next node follows.

    A node with code, or with an action other than those of reflection, has one part, ``step``. A reflection action is
    called with the ``parts`` (steps and an evaluator) and the ``parameters``, after their templates are filled in.
    """

    name: str
    uses: str
    parts: Mapping[str, Part]
    parameters: Mapping[str, JSON]
    output: str | None
    routes: tuple[Route, ...]
    place: Place


@dataclass(frozen=True)
class Plan:
    """The contents of a workflow file."""

    name: str
    nodes: tuple[Node, ...]
    max_steps: int


def read_plan(document: Document) -> Plan:
    """Read and check a document. Raises :class:`~jeeves_reflexion.workflows.errors.WorkflowFileError`."""
    place = Place(document)
    given = check_shape(document.value, "", place)
    settings = given.get("settings") or {}
    nodes = tuple(_node(each, place.of("nodes", at)) for at, each in enumerate(given["nodes"]))
    names = [node.name for node in nodes]
    for at, node in enumerate(nodes):
        if node.name in names[:at]:
            raise node.place.error("another node has this name already")
        for route in node.routes:
            if route.to not in {*names, END}:
                hint = near(route.to, [*names, END], otherwise="; the nodes are " + ", ".join([*names, END]))
                raise route.place.error(f"there is no node {route.to!r}{hint}")
    return Plan(given.get("name") or document.name, nodes, settings.get("max_steps", 100))


def _node(given: Mapping[str, Any], place: Place) -> Node:
    name, output = given["name"], given.get("output")
    if not name.strip() or name == END:
        raise place.of("name").error(f"{name!r} can't be the name of a node")
    if output in CONTROL_KEYS:
        raise place.of("output").error(f"{output!r} is a name that the loop itself sets")
    goto, routes = given.get("goto", []), []
    for at, each in enumerate([goto] if isinstance(goto, str) else goto):
        route = {"to": each} if isinstance(each, str) else each
        condition = route.get("when", True)
        if isinstance(condition, str):
            templates.check(templates.as_expression(condition), str(place.of("goto", at, "when")))
        routes.append(Route(route["to"], condition, place.of("goto", at)))
    uses = given.get("uses", "")
    parts = _parts(uses, given, place)
    takes = _PARAMETERS.get(uses, ())
    parameters = {key: item for key, item in (given.get("with") or {}).items() if key in takes}
    _check_templates(parameters, place.of("with"))
    return Node(name, uses, parts, parameters, output, tuple(routes), place)


_PARAMETERS: Final = {
    "reflection.loop": ("max_iterations", "on_failure"),
    "reflection.evaluate": ("data",),
    "reflection.correct": ("data", "errors"),
}


def _parts(uses: str, given: Mapping[str, Any], node: Place) -> dict[str, Part]:
    if not uses:
        return {"step": as_step(given, node)}
    call, place = given.get("with") or {}, node.of("with")
    if uses == "reflection.loop":
        steps = [key for key in ("generator", "corrector") if call.get(key) is not None]
        evaluator = as_evaluator(call["evaluator"], place.of("evaluator"))
        return {"evaluator": evaluator, **{key: as_step(call[key], place.of(key)) for key in steps}}
    if uses == "reflection.evaluate":
        keys = call.keys() - {"data", "evaluator_type"}
        judged_by = {**{key: call[key] for key in keys}, "type": call.get("evaluator_type", "schema")}
        return {"evaluator": as_evaluator(check_shape(judged_by, "evaluator", place), place)}
    if uses == "reflection.correct":
        if "run" in call:
            return {"corrector": Part("", {"run": call["run"]}, place)}
        action = call.get("corrector_action", LLM_CALL)
        asked = {key: call[key] for key in ("prompt", "model") if call.get(key) is not None}
        return {"corrector": as_step(check_shape({"action": action, **asked}, "step", place), place)}
    _check_templates(call, place)
    return {"step": Part(uses, call, place)}


# -- shapes


@functools.cache
def file_schema() -> dict[str, Any]:
    """Return the JSON Schema of workflow files."""
    file = resources.files("jeeves_reflexion.workflows").joinpath("workflow.schema.json")
    return dict(json.loads(file.read_text("utf-8")))


@functools.cache
def _validator(shape: str) -> Any:  # noqa: ANN401 - jsonschema's own
    schema = file_schema()
    if shape:
        schema = {"$ref": f"#/$defs/{shape}", "$defs": schema["$defs"]}
    return schemas.check_schema(schema)(schema)


def check_shape(given: object, shape: str, place: Place) -> Any:  # noqa: ANN401 - a mapping, as JSON
    """Check a value against a definition of ``workflow.schema.json`` ("" for a whole file) and return a copy.

    Raises :class:`~jeeves_reflexion.workflows.errors.WorkflowFileError` that says where the value is wrong, and why.
    """
    try:
        value = plain(given)
    except NoJSONError as error:
        raise place.error(f"it must be plain JSON: {error}") from error
    found = next(_validator(shape).iter_errors(value), None)
    if found is None:
        return value
    place, wrong, wanted = place.of(*found.absolute_path), found.instance, found.validator_value
    if found.validator == "additionalProperties":
        known = list(found.schema["properties"])
        key = next(key for key in wrong if key not in known)
        hint = near(key, known, otherwise=": the keys are " + ", ".join(known))
        raise place.of(key).error(f"unknown key {key!r}{hint}")
    if found.validator == "required":
        raise place.error(f"{next(key for key in wanted if key not in wrong)} is missing")
    if found.validator == "enum":
        raise place.error(f"must be one of {', '.join(wanted)}, not {shown(wrong)}{near(wrong, wanted)}")
    own = found.schema.get("errorMessage", {}).get(found.validator)
    raise place.error(own or abridge(found.message, 300))
