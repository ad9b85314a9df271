"""Workflows in YAML: nodes that generate, evaluate and correct, on the project's inner loop.

    workflow = Workflow.load("profile.yaml")
    state = await workflow.run({"request": "a profile for Ada"})

The three actions are functions as well: :func:`reflection_loop`, :func:`reflection_evaluate` and
:func:`reflection_correct`. Needs the extra ``workflows`` (Jinja2, PyYAML, jsonschema).
Names are imported when used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jeeves_reflexion.workflows.errors import (
        ReflectionFailedError,
        SchemaFolderError,
        TemplateError,
        WorkflowError,
        WorkflowFileError,
    )
    from jeeves_reflexion.workflows.functions import reflection_correct, reflection_evaluate, reflection_loop
    from jeeves_reflexion.workflows.plan import (
        CallStep,
        CodeEvaluation,
        CodeStep,
        ModelEvaluation,
        SchemaEvaluation,
    )
    from jeeves_reflexion.workflows.project_actions import lesson_actions, reflexion_actions
    from jeeves_reflexion.workflows.schemas import SchemaCheck
    from jeeves_reflexion.workflows.toolbox import Toolbox, Tools
    from jeeves_reflexion.workflows.verdicts import Problem, Verdict
    from jeeves_reflexion.workflows.workflow import Workflow

__all__ = [
    "CallStep",
    "CodeEvaluation",
    "CodeStep",
    "ModelEvaluation",
    "Problem",
    "ReflectionFailedError",
    "SchemaCheck",
    "SchemaEvaluation",
    "SchemaFolderError",
    "TemplateError",
    "Toolbox",
    "Tools",
    "Verdict",
    "Workflow",
    "WorkflowError",
    "WorkflowFileError",
    "lesson_actions",
    "reflection_correct",
    "reflection_evaluate",
    "reflection_loop",
    "reflexion_actions",
]

_HOMES = {
    "CallStep": "plan",
    "CodeEvaluation": "plan",
    "CodeStep": "plan",
    "ModelEvaluation": "plan",
    "Problem": "verdicts",
    "ReflectionFailedError": "errors",
    "SchemaCheck": "schemas",
    "SchemaEvaluation": "plan",
    "SchemaFolderError": "errors",
    "TemplateError": "errors",
    "Toolbox": "toolbox",
    "Tools": "toolbox",
    "Verdict": "verdicts",
    "Workflow": "workflow",
    "WorkflowError": "errors",
    "WorkflowFileError": "errors",
    "lesson_actions": "project_actions",
    "reflection_correct": "functions",
    "reflection_evaluate": "functions",
    "reflection_loop": "functions",
    "reflexion_actions": "project_actions",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
