"""What the steps of a workflow work with: models, the sandbox, actions of one's own, and the run's session."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeAlias, TypeVar, cast

import anyio
import anyio.to_thread

from jeeves_reflexion.errors import HOPELESS, ConfigurationError
from jeeves_reflexion.models import open_model
from jeeves_reflexion.models.ask import ask
from jeeves_reflexion.protocols import ChatModel, Completion, Message, Sampling
from jeeves_reflexion.sandbox import Language, Sandbox
from jeeves_reflexion.sandbox.inside.python_code import execute
from jeeves_reflexion.session import Session
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows.errors import TemplateError, WorkflowError
from jeeves_reflexion.workflows.parts import LLM_CALL, REFLECTION, CallStep, near
from jeeves_reflexion.workflows.values import NoJSONError, State, produced

T = TypeVar("T")

OwnAction: TypeAlias = "Callable[[dict[str, JSON], dict[str, JSON]], JSON | Awaitable[JSON]]"
"""An action of one's own: gets a copy of the state and its parameters, returns its result."""

Models: TypeAlias = Mapping[str, ChatModel] | Callable[[str], ChatModel]

FATAL = (*HOPELESS, TemplateError)
"""What no further attempt of a loop would mend, so that it ends the workflow."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What a caller gives to a workflow.

    ``models`` are the models by the names that the steps use, or a function from a name to its model. ``model`` is
    asked for every name that they don't have, and where no name is given. Without it a name is opened at the
    OpenAI-compatible endpoint of the environment. ``sandbox`` is where code runs, by default one with the default
    limits. ``base_folder`` is where ``$ref`` finds files. ``trusted`` runs inline Python in this process. A step that
    takes longer than ``step_seconds`` has failed.
    """

    model: ChatModel | None = None
    models: Models | None = None
    sandbox: Sandbox | None = None
    base_folder: Path | None = None
    trusted: bool = False
    actions: Mapping[str, OwnAction] = field(default_factory=dict)
    default_model: str | None = None
    step_seconds: float = 300.0


class Toolbox:
    """The tools of one run; opens what is missing when it is first needed, and closes that at the end."""

    def __init__(self, tools: Tools | None = None, session: Session | None = None) -> None:
        self.tools = tools or Tools()
        self.session = session or Session()
        self._closing = AsyncExitStack()
        self._opened: dict[str, ChatModel] = {}
        self._sandbox = self.tools.sandbox or Sandbox()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._closing.aclose()

    def model(self, name: str | None, state: State) -> ChatModel:
        """Return the model for a step: the one it names, else the state's ``llm_model``, else the workflow's."""
        of_state = state.get("llm_model")
        chosen = name or (of_state if isinstance(of_state, str) else "") or self.tools.default_model
        models, model = self.tools.models, self.tools.model
        if chosen and callable(models):
            return models(chosen)
        if chosen and isinstance(models, Mapping) and chosen in models:
            return models[chosen]
        if model is not None:
            return model
        if not chosen:
            raise ConfigurationError(
                "no model is named: give the step a model, the file settings.model, the state llm_model, or pass model="
            )
        if chosen not in self._opened:
            opened = self._opened[chosen] = open_model(chosen)
            close = getattr(opened, "aclose", None)
            if inspect.iscoroutinefunction(close):
                self._closing.push_async_callback(close)
        return self._opened[chosen]

    async def ask(
        self, name: str | None, state: State, messages: list[Message], sampling: Sampling | None = None
    ) -> Completion:
        """Ask the model that a step names, charged to the run."""
        model = self.model(name, state)
        with self.session.acting_as("agent"):
            return await ask(model, messages, sampling=sampling)

    def action(self, step: CallStep) -> OwnAction | None:
        """Return the action that a step names, None for ``llm.call``. Raises :class:`WorkflowFileError`."""
        actions = self.tools.actions
        if step.action == LLM_CALL or step.action in actions:
            return actions.get(step.action)
        known = [LLM_CALL, *REFLECTION, *actions]
        others = f": there is {', '.join(known)}; add your own with register_action"
        raise step.place.error(
            f"there is no action {step.action!r}{near(step.action, known, otherwise=others)}"
        )

    async def run_code(self, code: str, language: str, inputs: Mapping[str, JSON], where: str) -> JSON:
        """Run code and return its value; see :meth:`jeeves_reflexion.sandbox.Sandbox.run` for what is raised."""
        if language == "python" and self.tools.trusted:
            value = await run_here(code, inputs)
        else:
            ran = await self._sandbox.run(code, language=cast("Language", language), inputs=inputs)
            value = ran.value
        try:
            return produced(value)
        except NoJSONError as error:
            raise WorkflowError(f"{where}: the code made a value that is no JSON: {error}") from error

    async def in_time(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return what a call comes to within the time of a step; raises :class:`WorkflowError` after that."""
        seconds = self.tools.step_seconds
        with anyio.move_on_after(seconds):
            return await call()
        raise WorkflowError(f"it took longer than {seconds:g} s")


async def run_here(code: str, inputs: Mapping[str, JSON]) -> object:
    """Run Python in a thread of this process, and return what the sandbox would: no limits, no isolation.

    The thread is left behind when the caller is cancelled.
    """
    names: dict[str, object] = {"__name__": "__workflow__", **copy.deepcopy(dict(inputs))}

    def work() -> tuple[object]:
        value = execute(code, names)
        return (names.get("result") if value is None else value,)

    (value,) = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    return value
