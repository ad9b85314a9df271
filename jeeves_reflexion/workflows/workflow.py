"""A workflow: nodes that run one after the other, and the state that they hand on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

from jeeves_reflexion.callables import run_alone
from jeeves_reflexion.errors import ConfigurationError, ReflexionError, SandboxError, SandboxUnavailableError
from jeeves_reflexion.events import AgentEvent
from jeeves_reflexion.protocols import ChatModel
from jeeves_reflexion.redaction import redacting
from jeeves_reflexion.sandbox import Sandbox
from jeeves_reflexion.session import Listener, Session
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows import actions
from jeeves_reflexion.workflows.documents import Document, read_file, read_yaml
from jeeves_reflexion.workflows.errors import WorkflowError
from jeeves_reflexion.workflows.plan import END, LLM_CALL, REFLECTION, Node, read_plan
from jeeves_reflexion.workflows.steps import Models, OwnAction, Toolbox, Tools, perform
from jeeves_reflexion.workflows.templates import holds, render
from jeeves_reflexion.workflows.values import shown

_ACTIONS: Final[dict[str, Callable[..., Awaitable[JSON]]]] = {
    "reflection.loop": actions.reflection_loop,
    "reflection.evaluate": actions.reflection_evaluate,
    "reflection.correct": actions.reflection_correct,
}


class Workflow:
    """A workflow that was read from a file or a text; runs as often as wanted, also at once.

    The state is a JSON object. A node's result, where it is an object, is merged into it, or stored under the name of
    its ``output:``. ``reflection.loop`` does both. Nodes run in order; ``goto`` goes elsewhere, and ``__end__`` ends.
    """

    def __init__(self, document: Document) -> None:
        self.plan = read_plan(document)
        self._base_folder = document.folder
        self._actions: dict[str, OwnAction] = {}

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a YAML file; ``$ref`` finds files in its folder. Raises :class:`WorkflowFileError`."""
        path = Path(path)
        return cls(replace(read_file(path), folder=path.resolve().parent))

    @classmethod
    def from_text(cls, text: str, *, name: str = "workflow", base_folder: str | Path | None = None) -> Self:
        """Read a YAML text; ``$ref`` finds files in ``base_folder``. Raises :class:`WorkflowFileError`."""
        folder = None if base_folder is None else Path(base_folder)
        return cls(replace(read_yaml(text, name), folder=folder))

    def register_action(self, name: str, action: OwnAction) -> None:
        """Add an action of one's own for ``uses:`` and ``action:``.

        It is called with a copy of the state and its parameters, both dicts, and returns JSON; it may be async.
        """
        if not name.strip() or name in {LLM_CALL, *REFLECTION}:
            raise ConfigurationError(f"{name!r} can't be the name of an action")
        if not callable(action):
            raise ConfigurationError(f"the action {name!r} can't be called")
        self._actions[name] = action

    def check(self) -> None:
        """Raise :class:`WorkflowFileError` if a node calls an action that there is not."""
        toolbox = Toolbox(Tools(actions=self._actions))
        for node in self.plan.nodes:
            for name, part in node.parts.items():
                if part.kind and name != "evaluator":
                    toolbox.action(part)

    async def run(
        self,
        state: Mapping[str, JSON] | None = None,
        *,
        model: ChatModel | str | None = None,
        models: Models | None = None,
        sandbox: Sandbox | None = None,
        listener: Listener | None = None,
    ) -> dict[str, JSON]:
        """Run the nodes and return the final state; the one given is not changed.

        ``models`` are the models by the names that the file uses, or a function from a name to its model; ``model`` is
        asked for every other name. Without either a name is opened at the OpenAI-compatible endpoint of the
        environment. All code runs in ``sandbox``. ``listener`` hears the events of the run, without secrets.

        Raises :class:`WorkflowError` for a node that failed, :class:`ReflectionFailedError` for a loop that is to
        raise, :class:`ConfigurationError`, ``ModelError`` and :class:`SandboxUnavailableError`.
        """
        self.check()
        tools = Tools(model, models, sandbox, self._base_folder, dict(self._actions))
        async with Toolbox(tools, redacting(Session(listener=listener))) as toolbox:
            return await _Run(self, toolbox, actions.checked_state(state or {})).go()

    def run_sync(self, state: Mapping[str, JSON] | None = None, **options: Any) -> dict[str, JSON]:  # noqa: ANN401
        """Run in an event loop of its own, with the options of :meth:`run`.

        Raises :class:`SessionError` where a loop runs already.
        """
        return run_alone(lambda: self.run(state, **options), "workflow.run(...)")


@dataclass(slots=True)
class _Run:
    workflow: Workflow
    toolbox: Toolbox
    state: dict[str, JSON]
    trail: list[str] = field(default_factory=list)

    async def go(self) -> dict[str, JSON]:
        plan = self.workflow.plan
        places = {node.name: place for place, node in enumerate(plan.nodes)} | {END: len(plan.nodes)}
        place = 0
        while place < len(plan.nodes):
            node = plan.nodes[place]
            if len(self.trail) >= plan.max_steps:
                raise WorkflowError(
                    f"{plan.name}: not at its end after {plan.max_steps} nodes (the last: "
                    f"{' -> '.join(self.trail[-4:])}): is there a cycle without an end? settings.max_steps allows more"
                )
            self.trail.append(node.name)
            await self._node(node)
            place += 1
            for route in node.routes:
                if await holds(route.condition, self.state, str(route.place)):
                    place = places[route.to]
                    break
        return actions.checked_state(self.state)

    async def _node(self, node: Node) -> None:
        session = self.toolbox.session
        data: dict[str, JSON] = {"node": node.name, "step": len(self.trail)}
        await session.emit(AgentEvent(run_id=session.id, name="workflow.node_started", data=data))
        try:
            result = await self._result(node)
        except SandboxUnavailableError:
            raise
        except WorkflowError as error:
            if f"node {node.name!r}" in str(error):
                raise
            raise type(error)(f"{node.place}: {error}") from error
        except SandboxError as error:
            raise WorkflowError(f"{node.place}: {error}") from error
        except ReflexionError as error:
            error.add_note(f"in {node.place}")
            raise
        except Exception as error:
            raise WorkflowError(f"{node.place}: {type(error).__name__}: {error}") from error
        self._merge(node, result)

    async def _result(self, node: Node) -> JSON:
        state, toolbox = self.state, self.toolbox
        if "step" in node.parts:
            return await toolbox.in_time(lambda: perform(node.parts["step"], state, toolbox))
        place = node.place.of("with")
        filled = {
            key: await render(value, state, str(place.of(key))) for key, value in node.parameters.items()
        }
        return await _ACTIONS[node.uses](state, **node.parts, **filled, tools=toolbox)

    def _merge(self, node: Node, result: JSON) -> None:
        """Put a node's result into the state; see :class:`Workflow`."""
        loops = node.uses == "reflection.loop"
        if loops:
            # A loop before this one may have failed; this one did not.
            self.state.pop("exhausted", None)
        if isinstance(result, Mapping) and (loops or node.output is None):
            self.state.update(result)
        if node.output is not None:
            self.state[node.output] = result
        elif result is not None and not isinstance(result, Mapping):
            raise WorkflowError(
                f"{node.place}: the result is no object that could be merged into the state but {shown(result)}: name"
                " it with `output:`"
            )
