"""Reads a workflow out of a document, and refuses what it doesn't know, with the place and a near suggestion."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows import reading_parts as parts
from jeeves_reflexion.workflows import templates
from jeeves_reflexion.workflows.documents import Document
from jeeves_reflexion.workflows.plan import (
    DEFAULT_ITERATIONS,
    DEFAULT_STEPS,
    END,
    Action,
    CallStep,
    CodeStep,
    CorrectCall,
    EvaluateCall,
    LoopCall,
    Node,
    Place,
    Plan,
    Route,
    check_iterations,
    check_strategy,
)

_START: Final = "__start__"
_MOST_STEPS: Final = 100_000


def read_plan(document: Document) -> Plan:
    """Return what a document says. Raises :class:`~jeeves_reflexion.workflows.errors.WorkflowFileError`."""
    place = Place(document)
    fields = parts.fields(
        document.value, place, required=("nodes",), known=("name", "description", "edges", "settings")
    )
    nodes = _nodes(fields["nodes"], place.of("nodes"))
    names = [node.name for node in nodes]
    for node in nodes:
        _check_targets(node.routes, names, node.place)
    start, nodes = _with_edges(fields.get("edges"), nodes, place.of("edges"))
    settings = parts.fields(
        _or_empty(fields.get("settings")), place.of("settings"), known=("trusted", "max_steps", "model")
    )
    steps = settings.get("max_steps", DEFAULT_STEPS)
    if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= _MOST_STEPS:
        raise place.of("settings", "max_steps").error(
            f"must be a whole number from 1 to {_MOST_STEPS}, not {steps!r}"
        )
    trusted = settings.get("trusted", False)
    if not isinstance(trusted, bool):
        raise place.of("settings", "trusted").error(f"must be true or false, not {trusted!r}")
    return Plan(
        name=parts.text(fields, "name", place, default=document.name),
        description=parts.text(fields, "description", place, default=""),
        nodes=nodes,
        start=start,
        model=parts.text(settings, "model", place.of("settings"), default="") or None,
        max_steps=steps,
        trusted=trusted,
    )


def _or_empty(value: JSON) -> JSON:
    return {} if value is None else value


def _nodes(value: JSON, place: Place) -> tuple[Node, ...]:
    if not isinstance(value, list) or not value:
        raise place.error("must be a list of at least one node")
    nodes: list[Node] = []
    for number, item in enumerate(value):
        node = _node(item, place.of(number))
        if node.name in {earlier.name for earlier in nodes}:
            raise node.place.error("another node has this name already")
        nodes.append(node)
    return tuple(nodes)


def _node(value: JSON, place: Place) -> Node:
    fields = parts.fields(
        value,
        place,
        required=("name",),
        known=("uses", "run", "language", "with", "output", "goto", "next", "description"),
    )
    name = parts.text(fields, "name", place)
    if not name.strip() or name in {END, _START}:
        raise place.of("name").error(f"{name!r} can't be the name of a node")
    mine = Place(place.document, place.path, f"node {name!r}")
    output = parts.text(fields, "output", mine, default="") or None
    if output is not None and parts.is_control(output):
        raise mine.of("output").error(f"{output!r} is a name that the loop itself sets")
    if "goto" in fields and "next" in fields:
        raise mine.error("goto and next are the same: give one of them")
    key = "next" if "next" in fields else "goto"
    routes = _routes(fields[key], mine.of(key)) if key in fields else ()
    return Node(name, _action(fields, mine), output, routes, mine)


def _action(fields: Mapping[str, JSON], place: Place) -> Action:
    if ("run" in fields) == ("uses" in fields):
        raise place.error("must have either run (code) or uses (an action)")
    if "run" in fields:
        if "with" in fields:
            raise place.of("with").error("goes with uses; code reads what it needs from `state`")
        return parts.code_step(fields, place)
    if "language" in fields:
        raise place.of("language").error("goes with run")
    action, inner = parts.text(fields, "uses", place), place.of("with")
    given = _or_empty(fields.get("with"))
    match action:
        case "reflection.loop":
            return _loop(given, inner)
        case "reflection.evaluate":
            return _evaluate(given, inner)
        case "reflection.correct":
            return _correct(given, inner)
    if not isinstance(given, Mapping):
        raise inner.error("must be a mapping of parameters")
    return parts.call_step(action, given, inner, place.of("uses"))


def _loop(value: JSON, place: Place) -> LoopCall:
    fields = parts.fields(
        value, place, required=("generator", "evaluator"), known=("corrector", "max_iterations", "on_failure")
    )
    iterations, strategy = (
        fields.get("max_iterations", DEFAULT_ITERATIONS),
        fields.get("on_failure", "return_best"),
    )
    for key, given, check in (
        ("max_iterations", iterations, check_iterations),
        ("on_failure", strategy, check_strategy),
    ):
        if isinstance(given, str) and templates.is_template(given):
            templates.check(given, str(place.of(key)))
            continue
        try:
            check(given, str(place.of(key)))
        except ConfigurationError as error:
            raise place.of(key).error(str(error).rpartition(f"{key}: ")[2]) from error
    corrector = fields.get("corrector")
    return LoopCall(
        parts.read_step(fields["generator"], place.of("generator")),
        parts.read_evaluation(fields["evaluator"], place.of("evaluator")),
        None if corrector is None else parts.read_step(corrector, place.of("corrector")),
        iterations,
        strategy,
    )


def _evaluate(value: JSON, place: Place) -> EvaluateCall:
    allowed = ("schema", "prompt", "model", "examples", "run", "language")
    fields = parts.fields(value, place, known=("data", "evaluator_type", *allowed))
    parts.check_templates(fields.get("data"), place.of("data"))
    chosen: dict[str, JSON] = {"type": fields.get("evaluator_type", "schema")}
    chosen.update({key: fields[key] for key in allowed if key in fields})
    evaluator = parts.read_evaluation(chosen, place, named="evaluator_type")
    return EvaluateCall(evaluator, fields.get("data"), "data" in fields)


def _correct(value: JSON, place: Place) -> CorrectCall:
    fields = parts.fields(
        value, place, known=("data", "errors", "corrector_action", "run", "prompt", "model")
    )
    for key in ("data", "errors"):
        parts.check_templates(fields.get(key), place.of(key))
    if "run" in fields:
        for other in ("prompt", "corrector_action", "model"):
            if other in fields:
                raise place.of(other).error("run is given as well: one corrector is enough")
        corrector: CodeStep | CallStep = parts.code_step(fields, place)
    elif "corrector_action" in fields or "prompt" in fields:
        action = parts.text(fields, "corrector_action", place, default="llm.call")
        given = {key: fields[key] for key in ("prompt", "model") if key in fields}
        corrector = parts.call_step(action, given, place, place.of("corrector_action"))
    else:
        raise place.error("must have one of run, prompt and corrector_action")
    return CorrectCall(
        corrector,
        fields.get("data"),
        "data" in fields,
        fields.get("errors"),
        "errors" in fields,
    )


def _routes(value: JSON, place: Place) -> tuple[Route, ...]:
    if isinstance(value, str):
        return (Route(value),)
    if not isinstance(value, list) or not value:
        raise place.error("must be the name of a node, or a list of rules with to and when")
    return tuple(_route(item, place.of(number)) for number, item in enumerate(value))


def _route(value: JSON, place: Place) -> Route:
    if isinstance(value, str):
        return Route(value)
    fields = parts.fields(value, place, required=("to",), known=("when", "if"))
    if "when" in fields and "if" in fields:
        raise place.error("when and if are the same: give one of them")
    return Route(
        parts.text(fields, "to", place), _condition(fields.get("when", fields.get("if", True)), place)
    )


def _condition(value: JSON, place: Place) -> JSON:
    if isinstance(value, str):
        templates.check(templates.as_expression(value), str(place.of("when")))
    elif not isinstance(value, bool):
        raise place.error(f"when must be true, false or an expression of state, not {value!r}")
    return value


def _with_edges(
    value: JSON, nodes: tuple[Node, ...], place: Place
) -> tuple[tuple[Route, ...], tuple[Node, ...]]:
    """Give nodes without a goto the routes of the ``edges`` section, if there is one."""
    if value is None:
        return (), nodes
    if not isinstance(value, list):
        raise place.error("must be a list of edges with from, to and when")
    found: dict[str, list[Route]] = {}
    names = [node.name for node in nodes]
    for number, item in enumerate(value):
        mine = place.of(number)
        fields = parts.fields(item, mine, required=("from", "to"), known=("when",))
        source = parts.text(fields, "from", mine)
        _check_name(source, [*names, _START], mine.of("from"))
        route = Route(parts.text(fields, "to", mine), _condition(fields.get("when", True), mine))
        _check_targets((route,), names, mine)
        found.setdefault(source, []).append(route)
    changed = [
        Node(node.name, node.action, node.output, node.routes or tuple(found.get(node.name, ())), node.place)
        for node in nodes
    ]
    return tuple(found.get(_START, ())), tuple(changed)


def _check_targets(routes: Iterable[Route], names: list[str], place: Place) -> None:
    for route in routes:
        if route.to != END:
            _check_name(route.to, names, place)


def _check_name(name: str, names: list[str], place: Place) -> None:
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        hint = f": did you mean {near[0]!r}?" if near else f"; there is {', '.join(names)}, and {END}"
        raise place.error(f"there is no node {name!r}{hint}")
