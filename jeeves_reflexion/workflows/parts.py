"""What a workflow file says: nodes, their steps, evaluators, and where each goes next.

The classes are the shape of the file: pydantic reads a document into them (:mod:`jeeves_reflexion.workflows.reader`),
and :func:`file_schema` is the JSON Schema of it. What a shape can't say, such as whether a template can be read, a part
checks itself when it is told its place.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias, get_args

from pydantic import (
    ConfigDict,
    Discriminator,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.sandbox import Language
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows import schemas, templates
from jeeves_reflexion.workflows.documents import Document, Path_
from jeeves_reflexion.workflows.errors import SchemaFolderError, WorkflowFileError
from jeeves_reflexion.workflows.values import State

OnFailure: TypeAlias = Literal["return_best", "return_last", "raise"]
Function: TypeAlias = "Callable[[State], JSON | Awaitable[JSON]]"
"""A step of one's own: gets a copy of the state, returns its output."""

Judgement: TypeAlias = "Callable[[JSON, State], JSON | Awaitable[JSON]]"
"""An evaluator of one's own: gets the output and a copy of the state, returns what custom code may return."""

LANGUAGES: tuple[Language, ...] = get_args(Language)
STRATEGIES: tuple[OnFailure, ...] = get_args(OnFailure)
DEFAULT_ITERATIONS: Final = 3
END: Final = "__end__"
START: Final = "__start__"
LLM_CALL: Final = "llm.call"
LLM_KEYS: Final = ("model", "prompt", "messages", "system", "temperature", "max_tokens")
REFLECTION: Final = ("reflection.loop", "reflection.evaluate", "reflection.correct")

CONTROL_KEYS: Final = frozenset(
    {
        *("success", "valid", "exhausted", "reflection_iteration", "reflection_output", "reflection_errors"),
        *("reflection_history", "reflection_best", "reflection_best_score"),
        *("llm_model", "llm_provider"),  # which model is asked is not for the text of a model to say
    }
)
"""Keys that a generated output never overwrites, in the loop's result or in the state."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a document."""

    document: Document
    path: Path_ = ()

    def of(self, *keys: str | int) -> Place:
        """Return the place of a part."""
        return Place(self.document, (*self.path, *keys))

    def __str__(self) -> str:
        owner, keys = self._node(), self.path
        if owner:
            keys = keys[2:]
        dotted = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")
        what = ", ".join(part for part in (owner, dotted) if part)
        where = self.document.where(self.path)
        return f"{where}: {what}" if what else where

    def _node(self) -> str:
        match self.path, self.document.value:
            case ("nodes", int(number), *_), {"nodes": list(nodes)} if number < len(nodes):
                name = nodes[number].get("name") if isinstance(nodes[number], dict) else None
                return f"node {name!r}" if isinstance(name, str) else ""
        return ""

    def error(self, problem: str) -> WorkflowFileError:
        """Return the error that says so of this place."""
        return WorkflowFileError(f"{self}: {problem}")


NOWHERE = Place(Document(None, "workflow"))


def near(name: object, known: Iterable[str], *, otherwise: str = "") -> str:
    """Return ``: did you mean ...?`` where a known name is nearly the same, else what else there is to say."""
    found = difflib.get_close_matches(str(name), list(known), 1)
    return f": did you mean {found[0]!r}?" if found else otherwise


def key_problem(given: Mapping[str, JSON], required: Sequence[str], known: Sequence[str]) -> tuple[str, str]:
    """Return what is wrong with the keys of a mapping, or "", and the key that is."""
    allowed = (*required, *known)
    for key in given:
        if key not in allowed:
            return (
                f"unknown key {key!r}{near(key, allowed, otherwise=': there is ' + ', '.join(allowed))}",
                key,
            )
    missing = next((key for key in required if key not in given), "")
    return f"{missing} is missing" if missing else "", ""


_KEYS: Final = {"code": "run", "with_": "with", "from_": "from", "if_": "if"}
"""What fields are called in a file, where that is no name of Python's."""


def key_of(name: str) -> str:
    """Return what a field is called in a file."""
    return _KEYS.get(name, name)


@dataclass(frozen=True)
class Part:
    """A mapping of a file. ``place`` says where it stands, once it is read from one."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", alias_generator=key_of)
    place: SkipJsonSchema[Any] = field(default=NOWHERE, init=False, compare=False, repr=False)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, given: Any) -> Any:  # noqa: ANN401 - from outside
        required: list[str] = []
        known: list[str] = []
        for each in fields(cls):
            if each.init:
                needed = each.default is MISSING and each.default_factory is MISSING
                (required if needed else known).append(key_of(each.name))
        key = ""
        if isinstance(given, Mapping):
            said, key = key_problem(given, required, known)
        else:
            kind = "nothing" if given is None else "a list" if isinstance(given, list) else f"{given!r}"[:60]
            said = f"must be a mapping with {', '.join((*required, *known))}, not {kind}"
        if said:
            raise PydanticCustomError("workflow", "{said}", {"said": said, "key": key})
        return given

    def settle(self, place: Place) -> Self:
        """Tell this part, and those in it, where they stand, and check what their shape doesn't say.

        Raises :class:`WorkflowFileError`.
        """
        self.stand(place)
        for each in fields(self):
            value, inner = getattr(self, each.name), place.of(key_of(each.name))
            for number, item in enumerate(value if isinstance(value, tuple) else ()):
                if isinstance(item, Part):
                    item.settle(inner.of(number))
            if isinstance(value, Part):
                value.settle(inner)
        self._check()
        return self

    def stand(self, place: Place) -> Self:
        """Tell this part alone where it stands."""
        object.__setattr__(self, "place", place)
        return self

    def _check(self) -> None:
        pass

    def check_templates(self, *keys: str) -> None:
        """Raise where a field holds a text that is no template that can be read."""
        for key in keys:
            templates.check(getattr(self, key), str(self.place.of(key)))


EVALUATORS: Final = ("schema", "llm", "custom")


def _evaluator_tag(given: Any) -> str | None:  # noqa: ANN401 - from outside
    return f"<{given.get('type')}>" if isinstance(given, Mapping) else None


# -- steps


@dataclass(frozen=True)
class CodeStep(Part):
    """Code that returns the output; it sees ``state``, as a corrector also ``output`` and ``errors``."""

    code: str
    language: Language = "python"

    def _check(self) -> None:
        check_code(self.code, self.place)


def check_code(code: str, place: Place) -> None:
    """Raise for code that is none."""
    if not code.strip():
        raise place.of("run").error("there is no code")


@dataclass(frozen=True)
class CallStep(Part):
    """An action with its parameters, whose templates are filled in when it is called."""

    action: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, given: Any) -> Any:  # noqa: ANN401 - from outside
        return {"action": given["action"], "parameters": {k: v for k, v in given.items() if k != "action"}}

    def _check(self) -> None:
        if self.action in REFLECTION:
            raise self.place.error(f"{self.action} is an action of nodes: give it to `uses`")
        if not self.action.strip():
            raise self.place.error("the action has no name")
        if self.action == LLM_CALL:
            said, key = key_problem(self.parameters, (), LLM_KEYS)
            if said:
                raise self.place.of(key).error(said)
            if ("prompt" in self.parameters) == ("messages" in self.parameters):
                raise self.place.error("llm.call takes either prompt or messages")
        for key, value in self.parameters.items():
            templates.check(value, str(self.place.of(key)))


Step: TypeAlias = "CodeStep | CallStep | Function"
_CALL_SCHEMA: Final = {
    "type": "object",
    "properties": {"action": {"type": "string", "examples": [LLM_CALL], "not": {"enum": [*REFLECTION]}}},
    "required": ["action"],
}


def _step_tag(given: Any) -> str | None:  # noqa: ANN401 - from outside
    if not isinstance(given, Mapping) or ("run" in given) == ("action" in given):
        return None
    return "<run>" if "run" in given else "<call>"


FileStep: TypeAlias = Annotated[
    Annotated[CodeStep, Tag("<run>")] | Annotated[CallStep, Tag("<call>"), WithJsonSchema(_CALL_SCHEMA)],
    Discriminator(
        _step_tag,
        custom_error_type="step",
        custom_error_message="must have either action (with its parameters) or run (code)",
    ),
]


# -- evaluators


@dataclass(frozen=True)
class SchemaEvaluation(Part):
    """Judges by JSON Schema. ``schema`` may be a template that comes to one."""

    schema: Any
    type: Literal["schema"] = field(default="schema", kw_only=True, repr=False)

    def _check(self) -> None:
        mine, schema = self.place.of("schema"), self.schema
        if isinstance(schema, str):
            if not templates.is_template(schema):
                raise mine.error("must be a mapping; for a file write {$ref: file.json}")
            templates.check(schema, str(mine))
            return
        try:
            schemas.check(schema, self.place.document.folder)
        except SchemaFolderError:
            return
        except ConfigurationError as error:
            raise mine.error(str(error)) from error


@dataclass(frozen=True)
class ModelEvaluation(Part):
    """Judges by a model's word. ``examples`` are pairs of ``input`` and ``output`` shown before the question."""

    prompt: str
    model: str | None = None
    examples: tuple[Mapping[str, Any], ...] = ()
    type: Literal["llm"] = field(default="llm", kw_only=True, repr=False)

    def _check(self) -> None:
        self.check_templates("prompt", "model")
        for number, example in enumerate(self.examples):
            said, key = key_problem(example, ("input", "output"), ())
            if said:
                raise self.place.of("examples", number, *([key] if key else [])).error(said)


@dataclass(frozen=True)
class CodeEvaluation(Part):
    """Judges by code, which sees ``output`` and ``state`` and sets ``result``."""

    code: str
    language: Language = "python"
    type: Literal["custom"] = field(default="custom", kw_only=True, repr=False)

    def _check(self) -> None:
        check_code(self.code, self.place)


Evaluation: TypeAlias = "SchemaEvaluation | ModelEvaluation | CodeEvaluation | Judgement"


FileEvaluation: TypeAlias = Annotated[
    Annotated[SchemaEvaluation, Tag("<schema>")]
    | Annotated[ModelEvaluation, Tag("<llm>")]
    | Annotated[CodeEvaluation, Tag("<custom>")],
    # What the message says is told where the error is explained.
    Discriminator(_evaluator_tag, custom_error_type="evaluator", custom_error_message="type"),
]
