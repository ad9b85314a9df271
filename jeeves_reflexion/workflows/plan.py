"""The nodes of a workflow file, and the file as a whole; see :mod:`jeeves_reflexion.workflows.parts`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

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
)
from jeeves_reflexion.workflows.values import near

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
        step = CallStep(uses, {key: call[key] for key in ("prompt", "model") if call.get(key)}, place=place)
        check_templates(step.parameters, place)
        return {"corrector": step}
    check_templates(call, place)
    return {"step": CallStep(uses, call, place=place)}
