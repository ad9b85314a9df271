"""Workflows in YAML: nodes that generate, evaluate and correct, on the project's inner loop.

    workflow = Workflow.load("profile.yaml")
    state = await workflow.run({"request": "a profile for Ada"})

The three actions are functions as well: :func:`reflection_loop`, :func:`reflection_evaluate` and
:func:`reflection_correct`. Needs the extra ``workflows`` (Jinja2, PyYAML, jsonschema).
"""

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
