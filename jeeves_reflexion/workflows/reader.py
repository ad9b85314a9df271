"""Reads a workflow out of a document, and refuses what it doesn't know, with the place and a near suggestion."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails

from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows.documents import Document
from jeeves_reflexion.workflows.errors import WorkflowFileError
from jeeves_reflexion.workflows.parts import (
    EVALUATORS,
    Evaluation,
    FileEvaluation,
    FileStep,
    Place,
    Step,
    near,
)
from jeeves_reflexion.workflows.plan import Plan
from jeeves_reflexion.workflows.values import shown

T = TypeVar("T")

_PLANS: Final[TypeAdapter[Plan]] = TypeAdapter(Plan)
_STEPS: Final[TypeAdapter[Any]] = TypeAdapter(FileStep)
_EVALUATIONS: Final[TypeAdapter[Any]] = TypeAdapter(FileEvaluation)


def read_plan(document: Document) -> Plan:
    """Return what a document says. Raises :class:`~jeeves_reflexion.workflows.errors.WorkflowFileError`."""
    plan = _read(_PLANS, document).settle(Place(document))
    return replace(plan, name=plan.name or document.name)


def read_step(value: Mapping[str, JSON], name: str) -> Step:
    """Read a generator or a corrector: ``action`` with its parameters, or ``run``."""
    document = Document(value, name)
    step: Step = _read(_STEPS, document).settle(Place(document))
    return step


def read_evaluation(value: Mapping[str, JSON], name: str) -> Evaluation:
    """Read an evaluator: ``type`` and what belongs to it."""
    document = Document(value, name)
    evaluation: Evaluation = _read(_EVALUATIONS, document).settle(Place(document))
    return evaluation


class _Untitled(GenerateJsonSchema):
    """A title that only repeats a name is none."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401 - pydantic's own type
        """Give no titles to fields."""
        return False


def file_schema() -> dict[str, Any]:
    """Return the JSON Schema of workflow files, for editors."""
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    made = _PLANS.json_schema(schema_generator=_Untitled)
    return {**draft, **made, "title": "jeeves-reflexion workflow"}


def _read(kind: TypeAdapter[T], document: Document) -> T:
    try:
        return kind.validate_python(document.value)
    except ValidationError as error:
        raise _explained(document, error.errors(include_url=False)[0]) from None


def _explained(document: Document, error: ErrorDetails) -> WorkflowFileError:
    """Return what pydantic found as an error of its place, in the words of this package."""
    place, value = Place(document), document.value
    context = error.get("ctx", {})
    for step in (*error["loc"], *filter(None, [context.get("key")])):
        # What is not in the document is the tag of an alternative.
        if (isinstance(value, Mapping) and step in value) or (
            isinstance(value, list) and isinstance(step, int) and step < len(value)
        ):
            place, value = place.of(step), value[step]
    named = isinstance(value, Mapping) and "evaluator_type" in value
    return place.error(_said(error, "evaluator_type" if named else "type"))


_SAID: Final = {
    "string_type": "must be a text, not {given}",
    "bool_type": "must be true or false, not {given}",
    **dict.fromkeys(("dict_type", "mapping_type"), "must be a mapping, not {given}"),
    **dict.fromkeys(("tuple_type", "too_short"), "must be a list of at least one, not {given}"),
}


def _said(error: ErrorDetails, key: str) -> str:
    given, kind = error["input"], error["type"]
    if kind in {"workflow", "step", "node"}:
        return error["msg"]
    known = list(EVALUATORS)
    if kind == "literal_error":
        known = re.findall(r"'([^']*)'", error["ctx"]["expected"])
    if kind == "evaluator":
        if not isinstance(given, Mapping):
            return "must be a mapping with type, and what that type takes"
        if "type" not in given:
            return f"type is missing: one of {', '.join(known)}"
        given = given["type"]
    if kind in {"literal_error", "evaluator"}:
        what = f"{key} " if kind == "evaluator" else ""
        return f"{what}must be one of {', '.join(known)}, not {given!r}{near(given, known)}"
    said = _SAID.get(kind, error["msg"].replace("Input should", "must") + ", not {given}")
    return said.format(given="empty" if given is None else shown(given))
