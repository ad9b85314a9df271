"""What a workflow file says, read and checked: nodes, their steps, evaluators, and where each goes next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.sandbox import Language
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows.documents import Document, Path_
from jeeves_reflexion.workflows.errors import WorkflowFileError
from jeeves_reflexion.workflows.values import State

OnFailure: TypeAlias = Literal["return_best", "return_last", "raise"]
Function: TypeAlias = "Callable[[State], JSON | Awaitable[JSON]]"
"""A step of one's own: gets a copy of the state, returns its output."""

Judgement: TypeAlias = "Callable[[JSON, State], JSON | Awaitable[JSON]]"
"""An evaluator of one's own: gets the output and a copy of the state, returns what custom code may return."""

LANGUAGES: tuple[Language, ...] = get_args(Language)
STRATEGIES: tuple[OnFailure, ...] = get_args(OnFailure)
DEFAULT_ITERATIONS = 3
DEFAULT_STEPS = 100
END = "__end__"


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: ``owner`` says whose it is, ``keys`` lead to it from there."""

    document: Document
    path: Path_ = ()
    owner: str = ""
    keys: Path_ = ()

    def of(self, *keys: str | int) -> Place:
        """Return the place of a part."""
        return Place(self.document, (*self.path, *keys), self.owner, (*self.keys, *keys))

    def __str__(self) -> str:
        dotted = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.keys).lstrip(".")
        what = ", ".join(part for part in (self.owner, dotted) if part)
        where = self.document.where(self.path)
        return f"{where}: {what}" if what else where

    def error(self, problem: str) -> WorkflowFileError:
        """Return the error that says so of this place."""
        return WorkflowFileError(f"{self}: {problem}")


NOWHERE = Place(Document(None, "workflow"))


@dataclass(frozen=True, slots=True)
class CodeStep:
    """Code that returns the output; it sees ``state``, as a corrector also ``output`` and ``errors``."""

    code: str
    language: str = "python"
    place: Place = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CallStep:
    """An action with its parameters, whose templates are filled in when it is called."""

    action: str
    parameters: Mapping[str, JSON] = field(default_factory=dict)
    place: Place = field(default=NOWHERE, compare=False, repr=False)


Step: TypeAlias = "CodeStep | CallStep | Function"


@dataclass(frozen=True, slots=True)
class SchemaEvaluation:
    """Judges by JSON Schema. ``schema`` may be a template that comes to one."""

    schema: JSON
    place: Place = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ModelEvaluation:
    """Judges by a model's word. ``examples`` are pairs of ``input`` and ``output`` shown before the question."""

    prompt: str
    model: str | None = None
    examples: tuple[Mapping[str, JSON], ...] = ()
    place: Place = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CodeEvaluation:
    """Judges by code, which sees ``output`` and ``state`` and sets ``result``."""

    code: str
    language: str = "python"
    place: Place = field(default=NOWHERE, compare=False, repr=False)


Evaluation: TypeAlias = "SchemaEvaluation | ModelEvaluation | CodeEvaluation | Judgement"


@dataclass(frozen=True, slots=True)
class LoopCall:
    """``reflection.loop``; the last two may be templates."""

    generator: Step
    evaluator: Evaluation
    corrector: Step | None = None
    max_iterations: JSON = DEFAULT_ITERATIONS
    on_failure: JSON = "return_best"


@dataclass(frozen=True, slots=True)
class EvaluateCall:
    """``reflection.evaluate``; without ``has_data`` the state's ``reflection_output`` is judged."""

    evaluator: Evaluation
    data: JSON = None
    has_data: bool = False


@dataclass(frozen=True, slots=True)
class CorrectCall:
    """``reflection.correct``; what is not given is taken from the state."""

    corrector: Step
    data: JSON = None
    has_data: bool = False
    errors: JSON = None
    has_errors: bool = False


Action: TypeAlias = CodeStep | CallStep | LoopCall | EvaluateCall | CorrectCall


@dataclass(frozen=True, slots=True)
class Route:
    """Where to go, and under which condition."""

    to: str
    when: JSON = True


@dataclass(frozen=True, slots=True)
class Node:
    """One node: what it does, the name of its result, and its routes; without one that holds the next node follows."""

    name: str
    action: Action
    output: str | None
    routes: tuple[Route, ...]
    place: Place = field(repr=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """A workflow file. ``trusted`` is the file's wish; it takes the caller's leave as well."""

    name: str
    description: str
    nodes: tuple[Node, ...]
    start: tuple[Route, ...] = ()
    model: str | None = None
    max_steps: int = DEFAULT_STEPS
    trusted: bool = False


def check_iterations(value: object, where: str = "max_iterations") -> int:
    """Return a bound of a loop; raises :class:`ConfigurationError`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1000:
        raise ConfigurationError(f"{where}: must be a whole number from 1 to 1000, not {value!r}")
    return value


def check_strategy(value: object, where: str = "on_failure") -> OnFailure:
    """Return what to do when no output is valid; raises :class:`ConfigurationError`."""
    found = next((name for name in STRATEGIES if name == value), None)
    if found is None:
        raise ConfigurationError(f"{where}: must be one of {', '.join(STRATEGIES)}, not {value!r}")
    return found
