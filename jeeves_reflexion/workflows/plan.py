"""The nodes of a workflow file, and the file as a whole; see :mod:`jeeves_reflexion.workflows.parts`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows import templates
from jeeves_reflexion.workflows.documents import Document, Place
from jeeves_reflexion.workflows.parts import (
    CONTROL_KEYS,
    LLM_CALL,
    CallStep,
    CodeStep,
    Evaluation,
    as_evaluation,
    as_step,
    check_shape,
    check_templates,
    near,
)

OnFailure: TypeAlias = Literal["return_best", "return_last", "raise"]
DEFAULT_ITERATIONS: Final = 3
END: Final = "__end__"
START: Final = "__start__"


@dataclass(frozen=True)
class LoopCall:
    """``reflection.loop``; the last two may be templates."""

    generator: CodeStep | CallStep
    evaluator: Evaluation
    corrector: CodeStep | CallStep | None
    max_iterations: JSON
    on_failure: JSON


@dataclass(frozen=True)
class EvaluateCall:
    """``reflection.evaluate``; ``data`` may be a template."""

    evaluator: Evaluation
    data: JSON


@dataclass(frozen=True)
class CorrectCall:
    """``reflection.correct``; the last two may be templates."""

    corrector: CodeStep | CallStep
    data: JSON
    errors: JSON


@dataclass(frozen=True)
class Route:
    """Where to go, and under which condition: true, false or an expression of the state."""

    to: str
    condition: JSON


@dataclass(frozen=True)
class Node:
    """One node: what it does, the name of its result, and its routes; without one that holds the next node follows."""

    name: str
    call: CodeStep | CallStep | LoopCall | EvaluateCall | CorrectCall
    output: str | None
    routes: tuple[Route, ...]
    place: Place

    @property
    def actions(self) -> list[CallStep]:
        """The steps of this node that call an action."""
        match self.call:
            case LoopCall(generator=generator, corrector=corrector):
                steps: list[object] = [generator, corrector]
            case CorrectCall(corrector=corrector):
                steps = [corrector]
            case _:
                steps = [self.call]
        return [step for step in steps if isinstance(step, CallStep)]


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
            _check_name(route.to, [*names, END], node.place)
    for came_from, routes in plan.edges.items():
        _check_name(came_from, [*names, START], place.of("edges"))
        for route in routes:
            _check_name(route.to, [*names, END], place.of("edges"))
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
    return Node(name, _call(given, place), output, routes, place)


def _route(given: Mapping[str, Any], place: Place) -> Route:
    key = "if" if given.get("when") is None else "when"
    condition = given.get(key)
    if isinstance(condition, str):
        templates.check(templates.as_expression(condition), str(place.of(key)))
    return Route(given["to"], True if condition is None else condition)


def _edges(given: list[Mapping[str, Any]], place: Place) -> dict[str, tuple[Route, ...]]:
    edges: dict[str, tuple[Route, ...]] = {}
    for at, each in enumerate(given):
        edges[each["from"]] = (*edges.get(each["from"], ()), _route(each, place.of(at)))
    return edges


def _call(given: Mapping[str, Any], node: Place) -> Any:  # noqa: ANN401 - one of the five
    uses, call, place = given.get("uses"), given.get("with") or {}, node.of("with")
    if uses is None:
        return as_step(given, node)
    if uses == "reflection.loop":
        return _loop(call, place)
    data = call.get("data", "{{ state.reflection_output }}")
    if uses == "reflection.evaluate":
        kind = call.get("evaluator_type", "schema")
        keys = call.keys() - {"data", "evaluator_type"}
        evaluator = check_shape({**{key: call[key] for key in keys}, "type": kind}, "evaluator", place)
        check_templates({"data": data}, place)
        return EvaluateCall(as_evaluation(evaluator, place), data)
    if uses == "reflection.correct":
        errors = call.get("errors", "{{ state.reflection_errors | default([]) }}")
        check_templates({"data": data, "errors": errors}, place)
        if "run" in call:
            return CorrectCall(CodeStep(call["run"], place=place), data, errors)
        asked = {key: call[key] for key in ("prompt", "model") if call.get(key) is not None}
        check_templates(asked, place)
        step = CallStep(call.get("corrector_action", LLM_CALL), asked, place=place)
        return CorrectCall(step, data, errors)
    check_templates(call, place)
    return CallStep(uses, call, place=place)


def _loop(call: Mapping[str, Any], place: Place) -> LoopCall:
    most, strategy = call.get("max_iterations", DEFAULT_ITERATIONS), call.get("on_failure", "return_best")
    check_templates({"max_iterations": most, "on_failure": strategy}, place)
    corrector = call.get("corrector")
    return LoopCall(
        as_step(call["generator"], place.of("generator")),
        as_evaluation(call["evaluator"], place.of("evaluator")),
        None if corrector is None else as_step(corrector, place.of("corrector")),
        most,
        strategy,
    )


def check_iterations(value: object, where: str = "max_iterations") -> int:
    """Return a bound of a loop; raises :class:`ConfigurationError`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1000:
        raise ConfigurationError(f"{where}: must be a whole number from 1 to 1000, not {value!r}")
    return value


def check_strategy(value: object, where: str = "on_failure") -> str:
    """Return what to do when no output is valid; raises :class:`ConfigurationError`."""
    if value not in get_args(OnFailure):
        raise ConfigurationError(f"{where}: must be one of {', '.join(get_args(OnFailure))}, not {value!r}")
    return str(value)
