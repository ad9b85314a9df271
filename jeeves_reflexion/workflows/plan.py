"""What a workflow file says: its nodes, their steps and evaluators, and where each goes next.

The shape of a file is ``workflow.schema.json``, which editors use as well; what a shape can't say, such as whether a
template can be read, is checked when the parts are made.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Final, TypeAlias, get_args

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.sandbox import Language
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows import schemas, templates
from jeeves_reflexion.workflows.documents import Document, Place
from jeeves_reflexion.workflows.errors import SchemaFolderError, WorkflowFileError
from jeeves_reflexion.workflows.values import NoJSONError, State, near, plain, shown

LANGUAGES: Final = get_args(Language)
LLM_CALL: Final = "llm.call"
REFLECTION: Final = ("reflection.loop", "reflection.evaluate", "reflection.correct")

CONTROL_KEYS: Final = frozenset(
    {
        *("success", "valid", "exhausted", "reflection_iteration", "reflection_output", "reflection_errors"),
        *("reflection_history", "reflection_best", "reflection_best_score"),
        *("llm_model", "llm_provider"),  # which model is asked is not for the text of a model to say
    }
)
"""Keys that a generated output never overwrites, in the loop's result or in the state."""

_NOWHERE: Final = Place(Document(None))


@dataclass(frozen=True)
class CodeStep:
    """Code that returns the output; it sees ``state``, as a corrector also ``output`` and ``errors``."""

    code: str
    language: str = "python"
    place: Place = field(default=_NOWHERE, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True)
class CallStep:
    """An action with its parameters, whose templates are filled in when it is called."""

    action: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    place: Place = field(default=_NOWHERE, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True)
class SchemaEvaluation:
    """Judges by JSON Schema. ``schema`` may be a template that comes to one."""

    schema: Any
    place: Place = field(default=_NOWHERE, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True)
class ModelEvaluation:
    """Judges by a model's word. ``examples`` are pairs of ``input`` and ``output`` shown before the question."""

    prompt: str
    model: str | None = None
    examples: tuple[Mapping[str, Any], ...] = ()
    place: Place = field(default=_NOWHERE, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True)
class CodeEvaluation:
    """Judges by code, which sees ``output`` and ``state`` and sets ``result``."""

    code: str
    language: str = "python"
    place: Place = field(default=_NOWHERE, kw_only=True, compare=False, repr=False)


Function: TypeAlias = "Callable[[State], JSON | Awaitable[JSON]]"
"""A step of one's own: gets a copy of the state, returns its output."""

Judgement: TypeAlias = "Callable[[JSON, State], JSON | Awaitable[JSON]]"
"""An evaluator of one's own: gets the output and a copy of the state, returns what custom code may return."""

Step: TypeAlias = "CodeStep | CallStep | Function"
Evaluation: TypeAlias = "SchemaEvaluation | ModelEvaluation | CodeEvaluation | Judgement"


def as_step(given: Mapping[str, Any], place: Place) -> CodeStep | CallStep:
    """Return a generator or a corrector of a file, whose shape was checked, with its templates checked."""
    if "run" in given:
        return CodeStep(given["run"], given.get("language", "python"), place=place)
    step = CallStep(given["action"], {key: given[key] for key in given if key != "action"}, place=place)
    check_templates(step.parameters, place)
    return step


def as_evaluation(given: Mapping[str, Any], place: Place) -> Evaluation:
    """Return an evaluator of a file, whose shape was checked, with its templates and its schema checked."""
    if given["type"] == "custom":
        return CodeEvaluation(given["run"], given.get("language", "python"), place=place)
    if given["type"] == "llm":
        check_templates({key: given.get(key) for key in ("prompt", "model")}, place)
        examples = tuple(given.get("examples", ()))
        return ModelEvaluation(given["prompt"], given.get("model"), examples, place=place)
    schema = given["schema"]
    if isinstance(schema, str):
        check_templates({"schema": schema}, place)
    else:
        try:
            schemas.check(schema, place.document.folder)
        except SchemaFolderError:
            pass  # the folder may be given when the workflow runs
        except ConfigurationError as error:
            raise place.of("schema").error(str(error)) from error
    return SchemaEvaluation(schema, place=place)


def check_templates(parameters: Mapping[str, Any], place: Place) -> None:
    """Raise where a text in these parameters is no template that can be read."""
    for key, value in parameters.items():
        templates.check(value, str(place.of(key)))


# -- nodes

END: Final = "__end__"
START: Final = "__start__"


@dataclass(frozen=True)
class Route:
    """Where to go, and under which condition: true, false or an expression of the state."""

    to: str
    condition: JSON
    place: Place


@dataclass(frozen=True)
class Node:
    """One node: its name, that of its result, and its routes; without one that holds the next node follows.

    A node with code, or with an action other than those of reflection, does its ``step``. Otherwise ``parts`` (steps
    and an evaluator) and ``parameters`` (in which templates are filled in) are what the action is called with.
    """

    name: str
    uses: str
    parts: Mapping[str, Any]
    parameters: Mapping[str, JSON]
    output: str | None
    routes: tuple[Route, ...]
    place: Place


@dataclass(frozen=True)
class Plan:
    """A workflow file. ``trusted`` is the file's wish; it takes the caller's leave as well."""

    name: str
    nodes: tuple[Node, ...]
    edges: Mapping[str, tuple[Route, ...]]
    trusted: bool
    max_steps: int
    model: str | None

    def routes(self, name: str) -> tuple[Route, ...]:
        """Return the routes from a node, or from the start: a node's own come before those of the edges."""
        own = next((node.routes for node in self.nodes if node.name == name), ())
        return own or self.edges.get(name, ())


def read_plan(document: Document) -> Plan:
    """Return what a document says. Raises :class:`~jeeves_reflexion.workflows.errors.WorkflowFileError`."""
    place = Place(document)
    given = check_shape(document.value, "", place)
    settings = given.get("settings") or {}
    plan = Plan(
        given.get("name") or document.name,
        tuple(_node(each, place.of("nodes", at)) for at, each in enumerate(given["nodes"])),
        _edges(given.get("edges") or [], place.of("edges")),
        settings.get("trusted", False),
        settings.get("max_steps", 100),
        settings.get("model"),
    )
    names = [node.name for node in plan.nodes]
    for at, node in enumerate(plan.nodes):
        if node.name in names[:at]:
            raise node.place.error("another node has this name already")
        for route in node.routes:
            _check_name(route.to, [*names, END], route.place)
    for came_from, routes in plan.edges.items():
        for route in routes:
            _check_name(came_from, [*names, START], route.place)
            _check_name(route.to, [*names, END], route.place)
    return plan


def _check_name(name: str, names: list[str], place: Place) -> None:
    if name not in names:
        hint = near(name, names, otherwise="; there is " + ", ".join(names))
        raise place.error(f"there is no node {name!r}{hint}")


def _node(given: Mapping[str, Any], place: Place) -> Node:
    name, output = given["name"], given.get("output")
    if not name.strip() or name in {END, START}:
        raise place.of("name").error(f"{name!r} can't be the name of a node")
    if output in CONTROL_KEYS:
        raise place.of("output").error(f"{output!r} is a name that the loop itself sets")
    key = "next" if "next" in given else "goto"
    ways = given.get(key, [])
    listed = [ways] if isinstance(ways, str) else ways
    rules = [{"to": each} if isinstance(each, str) else each for each in listed]
    routes = tuple(_route(each, place.of(key, at)) for at, each in enumerate(rules))
    uses = given.get("uses", "")
    parts = _parts(uses, given, place)
    takes = _PARAMETERS.get(uses, ())
    parameters = {key: item for key, item in (given.get("with") or {}).items() if key in takes}
    check_templates(parameters, place.of("with"))
    return Node(name, uses, parts, parameters, output, routes, place)


def _route(given: Mapping[str, Any], place: Place) -> Route:
    key = "if" if given.get("when") is None else "when"
    condition = given.get(key)
    if isinstance(condition, str):
        templates.check(templates.as_expression(condition), str(place.of(key)))
    return Route(given["to"], True if condition is None else condition, place)


def _edges(given: list[Mapping[str, Any]], place: Place) -> dict[str, tuple[Route, ...]]:
    edges: dict[str, tuple[Route, ...]] = {}
    for at, each in enumerate(given):
        edges[each["from"]] = (*edges.get(each["from"], ()), _route(each, place.of(at)))
    return edges


_PARAMETERS: Final = {
    "reflection.loop": ("max_iterations", "on_failure"),
    "reflection.evaluate": ("data",),
    "reflection.correct": ("data", "errors"),
}


def _parts(uses: str, given: Mapping[str, Any], node: Place) -> dict[str, CodeStep | CallStep | Evaluation]:
    if not uses:
        return {"step": as_step(given, node)}
    call, place = given.get("with") or {}, node.of("with")
    if uses == "reflection.loop":
        steps = [key for key in ("generator", "corrector") if call.get(key) is not None]
        evaluator = as_evaluation(call["evaluator"], place.of("evaluator"))
        return {"evaluator": evaluator, **{key: as_step(call[key], place.of(key)) for key in steps}}
    if uses == "reflection.evaluate":
        keys = call.keys() - {"data", "evaluator_type"}
        judged_by = {**{key: call[key] for key in keys}, "type": call.get("evaluator_type", "schema")}
        return {"evaluator": as_evaluation(check_shape(judged_by, "evaluator", place), place)}
    if uses == "reflection.correct":
        if "run" in call:
            return {"corrector": CodeStep(call["run"], place=place)}
        uses = call.get("corrector_action", LLM_CALL)
        asked = {key: call[key] for key in ("prompt", "model") if call.get(key) is not None}
        return {"corrector": as_step(check_shape({"action": uses, **asked}, "step", place), place)}
    check_templates(call, place)
    return {"step": CallStep(uses, call, place=place)}


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
    """Return a copy of a value that has this shape of ``workflow.schema.json``, "" for that of a file.

    Raises :class:`~jeeves_reflexion.workflows.errors.WorkflowFileError` that says where and why it has not.
    """
    try:
        value = plain(given)
    except NoJSONError as error:
        raise place.error(f"it must be plain JSON: {error}") from error
    found = next(_validator(shape).iter_errors(value), None)
    if found is not None:
        raise _refusal(found, place.of(*found.absolute_path))
    return value


def _refusal(error: Any, place: Place) -> WorkflowFileError:  # noqa: ANN401 - jsonschema's own
    """Return what a validator found as an error of its place, in the words of this package."""
    given, wanted, kind, shape = error.instance, error.validator_value, error.validator, error.schema
    known = list(shape.get("properties", ())) if isinstance(shape, Mapping) else []
    if kind == "additionalProperties":
        key = next(key for key in given if key not in known)
        hint = near(key, known, otherwise=": there is " + ", ".join(known))
        return place.of(key).error(f"unknown key {key!r}{hint}")
    if kind == "required":
        return place.error(f"{next(key for key in wanted if key not in given)} is missing")
    but = ", not " + (
        "nothing" if given in (None, []) else "a list" if isinstance(given, list) else shown(given)
    )
    if kind == "enum":
        return place.error(f"must be one of {', '.join(wanted)}{but}{near(given, wanted)}")
    own = shape.get("errorMessage", {}).get(kind)
    if own is not None:
        return place.error(own if isinstance(given, Mapping) or not own.startswith("must be") else own + but)
    if kind == "type":
        kinds = wanted if isinstance(wanted, str) else wanted[0]
        with_keys = f" with {', '.join(known)}" if known else ""
        return place.error(f"must be {_KINDS[kinds]}{with_keys}{but}")
    bounds = {"minItems": "a list of at least", "minimum": "at least", "maximum": "at most"}
    return place.error(f"must be {bounds[kind]} {wanted}{but}" if kind in bounds else error.message)


_KINDS: Final = {
    "string": "a text",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "integer": "a whole number",
    "number": "a number",
}
