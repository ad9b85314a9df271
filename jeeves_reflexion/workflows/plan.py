"""The nodes of a workflow file, and the file as a whole; see :mod:`jeeves_reflexion.workflows.parts`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Strict,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.sandbox import Language
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows import templates
from jeeves_reflexion.workflows.errors import WorkflowFileError
from jeeves_reflexion.workflows.parts import (
    CONTROL_KEYS,
    DEFAULT_ITERATIONS,
    END,
    LLM_CALL,
    REFLECTION,
    START,
    STRATEGIES,
    CallStep,
    CodeStep,
    FileEvaluation,
    FileStep,
    OnFailure,
    Part,
    Place,
    check_code,
    key_of,
    near,
)


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


@dataclass(frozen=True)
class LoopCall(Part):
    """``reflection.loop``; the last two may be templates."""

    generator: FileStep
    evaluator: FileEvaluation
    corrector: FileStep | None = None
    max_iterations: Any = DEFAULT_ITERATIONS
    on_failure: Any = "return_best"

    def _check(self) -> None:
        for key, check in (("max_iterations", check_iterations), ("on_failure", check_strategy)):
            value, where = getattr(self, key), str(self.place.of(key))
            if isinstance(value, str) and templates.is_template(value):
                templates.check(value, where)
                continue
            try:
                check(value, where)
            except ConfigurationError as error:
                raise WorkflowFileError(str(error)) from error


@dataclass(frozen=True, kw_only=True)
class EvaluateCall(Part):
    """``reflection.evaluate``: an evaluator, whose keys stand beside the data that it judges."""

    evaluator: FileEvaluation
    data: Any = "{{ state.reflection_output }}"

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, given: Any) -> Any:  # noqa: ANN401 - from outside
        if not isinstance(given, Mapping):
            return {"evaluator": given}
        evaluator = {key: item for key, item in given.items() if key not in {"data", "evaluator_type"}}
        evaluator["type"] = given.get("evaluator_type", "schema")
        return {"evaluator": evaluator, **({"data": given["data"]} if "data" in given else {})}

    def settle(self, place: Place) -> Self:
        """Tell the evaluator that it stands where this does."""
        self.evaluator.settle(place)
        self.stand(place).check_templates("data")
        return self


@dataclass(frozen=True)
class CorrectCall(Part):
    """``reflection.correct``; what is not given is taken from the state."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid",
        alias_generator=key_of,
        json_schema_extra={"anyOf": [{"required": [key]} for key in ("run", "prompt", "corrector_action")]},
    )
    data: Any = "{{ state.reflection_output }}"
    errors: Any = "{{ state.reflection_errors | default([]) }}"
    code: str | None = None
    prompt: str | None = None
    corrector_action: str | None = None
    model: str | None = None

    @property
    def corrector(self) -> CodeStep | CallStep:
        """The step that corrects."""
        if self.code is not None:
            return CodeStep(self.code).stand(self.place)
        given = {"prompt": self.prompt, "model": self.model}
        named = {key: value for key, value in given.items() if value is not None}
        return CallStep(self.corrector_action or LLM_CALL, named).stand(self.place)

    def _check(self) -> None:
        others = [key for key in ("prompt", "corrector_action", "model") if getattr(self, key) is not None]
        if self.code is not None and others:
            raise self.place.of(others[0]).error("run is given as well: one corrector is enough")
        if self.code is None and not {"prompt", "corrector_action"} & set(others):
            raise self.place.error("must have one of run, prompt and corrector_action")
        self.check_templates("data", "errors")
        self.corrector.settle(self.place)


# -- nodes


Condition: TypeAlias = Annotated[Any, WithJsonSchema({"type": ["string", "boolean"]})]


@dataclass(frozen=True)
class Route(Part):
    """Where to go, and under which condition."""

    to: str
    when: Condition = None
    if_: Condition = None

    @property
    def condition(self) -> JSON:
        """The condition, by either of its names."""
        given: JSON = self.if_ if self.when is None else self.when
        return True if given is None else given

    def _check(self) -> None:
        if self.when is not None and self.if_ is not None:
            raise self.place.error("when and if are the same: give one of them")
        if isinstance(self.condition, str):
            templates.check(templates.as_expression(self.condition), str(self.place.of("when")))
        elif not isinstance(self.condition, bool):
            raise self.place.error(
                f"when must be true, false or an expression of state, not {self.condition!r}"
            )


def _as_routes(given: Any) -> Any:  # noqa: ANN401 - from outside
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list) or not listed:
        said = "must be the name of a node, or a list of rules with to and when"
        raise PydanticCustomError("workflow", "{said}", {"said": said, "key": ""})
    return [{"to": each} if isinstance(each, str) else each for each in listed]


Routes: TypeAlias = Annotated[
    tuple[Route, ...],
    BeforeValidator(
        _as_routes, json_schema_input_type=str | Annotated[tuple[str | Route, ...], Field(min_length=1)]
    ),
]


@dataclass(frozen=True, kw_only=True)
class Node(Part):
    """One node: its name, that of its result, and its routes; without one that holds the next node follows."""

    name: str
    output: str | None = None
    goto: Routes = ()
    next: Routes = ()
    description: str = ""

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes, by either of their names."""
        return self.goto or self.next

    def _check(self) -> None:
        if not self.name.strip() or self.name in {END, START}:
            raise self.place.of("name").error(f"{self.name!r} can't be the name of a node")
        if self.output in CONTROL_KEYS:
            raise self.place.of("output").error(f"{self.output!r} is a name that the loop itself sets")
        if self.goto and self.next:
            raise self.place.error("goto and next are the same: give one of them")


@dataclass(frozen=True, kw_only=True)
class CodeNode(Node):
    """A node with code."""

    code: str
    language: Language = "python"

    def _check(self) -> None:
        super()._check()
        check_code(self.code, self.place)

    @property
    def step(self) -> CodeStep:
        """What the node does."""
        return CodeStep(self.code, self.language).stand(self.place)


@dataclass(frozen=True, kw_only=True)
class LoopNode(Node):
    """A node with a loop."""

    uses: Literal["reflection.loop"]
    with_: LoopCall


@dataclass(frozen=True, kw_only=True)
class EvaluateNode(Node):
    """A node that judges."""

    uses: Literal["reflection.evaluate"]
    with_: Annotated[EvaluateCall, WithJsonSchema({"type": "object", "additionalProperties": True})]


@dataclass(frozen=True, kw_only=True)
class CorrectNode(Node):
    """A node that corrects."""

    uses: Literal["reflection.correct"]
    with_: CorrectCall


@dataclass(frozen=True, kw_only=True)
class ActionNode(Node):
    """A node that calls an action."""

    uses: Annotated[str, Field(json_schema_extra={"not": {"enum": [*REFLECTION]}, "examples": [LLM_CALL]})]
    with_: Mapping[str, Any] | None = None

    def _check(self) -> None:
        super()._check()
        self.step.settle(self.place.of("with"))

    @property
    def step(self) -> CallStep:
        """What the node does."""
        return CallStep(self.uses, self.with_ or {}).stand(self.place.of("with"))


def _node_tag(given: Any) -> str | None:  # noqa: ANN401 - from outside
    if not isinstance(given, Mapping):
        return "<code>"
    if ("run" in given) == ("uses" in given):
        return None
    return "<code>" if "run" in given else f"<{_TAGS.get(str(given['uses']), 'action')}>"


_TAGS: Final = dict(zip(REFLECTION, ("loop", "evaluate", "correct"), strict=True))
AnyNode: TypeAlias = Annotated[
    Annotated[CodeNode, Tag("<code>")]
    | Annotated[LoopNode, Tag("<loop>")]
    | Annotated[EvaluateNode, Tag("<evaluate>")]
    | Annotated[CorrectNode, Tag("<correct>")]
    | Annotated[ActionNode, Tag("<action>")],
    Discriminator(
        _node_tag,
        custom_error_type="node",
        custom_error_message="must have either run (code) or uses (an action)",
    ),
]


# -- the file


@dataclass(frozen=True, kw_only=True)
class Edge(Part):
    """A route that stands apart from its node."""

    from_: str
    to: str
    when: Condition = True

    @property
    def route(self) -> Route:
        """The route."""
        return Route(self.to, self.when).stand(self.place)

    def _check(self) -> None:
        self.route.settle(self.place)


@dataclass(frozen=True)
class Settings(Part):
    """``trusted`` is the file's wish; it takes the caller's leave as well."""

    trusted: Annotated[bool, Strict()] = False
    max_steps: Annotated[int, Strict(), Field(ge=1, le=100_000)] = 100
    model: str | None = None


@dataclass(frozen=True, kw_only=True)
class Plan(Part):
    """A workflow file."""

    nodes: Annotated[tuple[AnyNode, ...], Field(min_length=1)]
    name: str = ""
    description: str = ""
    edges: Annotated[
        tuple[Edge, ...],
        BeforeValidator(lambda given: () if given is None else given, tuple[Edge, ...] | None),
    ] = ()
    settings: Annotated[
        Settings, BeforeValidator(lambda given: {} if given is None else given, Settings | None)
    ] = field(default_factory=Settings)

    @property
    def trusted(self) -> bool:
        """Whether the file asks to have its Python run in the caller's process."""
        return self.settings.trusted

    def routes(self, name: str) -> tuple[Route, ...]:
        """Return the routes from a node, or from the start."""
        own = next((node.routes for node in self.nodes if node.name == name), ())
        return own or tuple(edge.route for edge in self.edges if edge.from_ == name)

    def _check(self) -> None:
        names = [node.name for node in self.nodes]
        for number, node in enumerate(self.nodes):
            if node.name in names[:number]:
                raise node.place.error("another node has this name already")
            for route in node.routes:
                self._check_name(route.to, [*names, END], node.place)
        for edge in self.edges:
            self._check_name(edge.from_, [*names, START], edge.place.of("from"))
            self._check_name(edge.to, [*names, END], edge.place)

    def _check_name(self, name: str, names: list[str], place: Place) -> None:
        if name not in names:
            raise place.error(
                f"there is no node {name!r}{near(name, names, otherwise='; there is ' + ', '.join(names))}"
            )
