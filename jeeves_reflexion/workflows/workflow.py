"""A workflow: nodes that run one after the other and share a state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

from jeeves_reflexion.callables import run_alone
from jeeves_reflexion.errors import ConfigurationError, ReflexionError, SandboxError, SandboxUnavailableError
from jeeves_reflexion.events import AgentEvent
from jeeves_reflexion.protocols import ChatModel
from jeeves_reflexion.sandbox import Sandbox
from jeeves_reflexion.session import Listener, Session, redacting
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows import actions
from jeeves_reflexion.workflows.documents import Document, read_file, read_yaml
from jeeves_reflexion.workflows.errors import WorkflowError
from jeeves_reflexion.workflows.plan import END, LLM_CALL, REFLECTION, Node, read_plan
from jeeves_reflexion.workflows.steps import Models, OwnAction, Toolbox, Tools, perform
from jeeves_reflexion.workflows.templates import holds
from jeeves_reflexion.workflows.values import shown

_ACTIONS: Final[dict[str, Callable[..., Awaitable[JSON]]]] = {
    "reflection.loop": actions.reflection_loop,
    "reflection.evaluate": actions.reflection_evaluate,
    "reflection.correct": actions.reflection_correct,
}


class Workflow:
    """A workflow from a file or a text. It may run any number of times, also concurrently.

    The state is a JSON object. A node's result is stored in it under the name of the node's ``output:``; without that
    name it is merged into the state, and must be an object. ``reflection.loop`` does both. Nodes run in order, unless
    ``goto`` names another node, or ``__end__`` to stop.
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
        """Add an action for ``uses:`` and ``action:``.

        It is called with a copy of the state and its parameters, both dicts, and returns JSON. It may be async.
        """
        if not name.strip() or name in {LLM_CALL, *REFLECTION}:
            raise ConfigurationError(f"{name!r} can't be the name of an action")
        if not callable(action):
            raise ConfigurationError(f"the action {name!r} is not callable")
        self._actions[name] = action

    def check(self) -> None:
        """Raise :class:`WorkflowFileError` if a node calls an unknown action."""
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
        """Run the nodes and return the final state; the given state is not changed.

        ``models`` maps the names that the file uses to models, or is a function that does; ``model`` is used for every
        other name. Without either, a name is opened at the OpenAI-compatible endpoint of the environment. All code runs
        in ``sandbox``. ``listener`` hears the events of the run, without secrets.

        Raises :class:`WorkflowError` if a node fails, :class:`ReflectionFailedError` if a loop fails whose
        ``on_failure`` is ``raise``, :class:`ConfigurationError`, ``ModelError`` and :class:`SandboxUnavailableError`.
        """
        self.check()
        tools = Tools(model, models, sandbox, self._base_folder, dict(self._actions))
        plan, trail, current = self.plan, list[str](), actions.checked_state(state or {})
        indices = {node.name: index for index, node in enumerate(plan.nodes)} | {END: len(plan.nodes)}
        index = 0
        async with Toolbox(tools, redacting(Session(listener=listener))) as toolbox:
            session = toolbox.session
            while index < len(plan.nodes):
                node = plan.nodes[index]
                if len(trail) >= plan.max_steps:
                    raise WorkflowError(
                        f"{plan.name}: not at its end after {plan.max_steps} nodes (the last: "
                        f"{' -> '.join(trail[-4:])}): is there an endless cycle? settings.max_steps allows more"
                    )
                trail.append(node.name)
                data: dict[str, JSON] = {"node": node.name, "step": len(trail)}
                await session.emit(AgentEvent(run_id=session.id, name="workflow.node_started", data=data))
                _merge(current, node, await _result(node, current, toolbox))
                index += 1
                for route in node.routes:
                    if await holds(route.condition, current, str(route.place)):
                        index = indices[route.to]
                        break
            return actions.checked_state(current)

    def run_sync(self, state: Mapping[str, JSON] | None = None, **options: Any) -> dict[str, JSON]:  # noqa: ANN401
        """Run in a new event loop, with the options of :meth:`run`. Raises :class:`SessionError` within a loop."""
        return run_alone(lambda: self.run(state, **options), "workflow.run(...)")


async def _result(node: Node, state: Mapping[str, JSON], toolbox: Toolbox) -> JSON:
    """Run a node. An error that doesn't name the node yet gets its place."""
    try:
        if "step" in node.parts:
            return await toolbox.in_time(lambda: perform(node.parts["step"], state, toolbox))
        filled = await toolbox.filled(node.parameters, state, node.place.of("with"))
        return await _ACTIONS[node.uses](state, **node.parts, **filled, tools=toolbox)
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


def _merge(state: dict[str, JSON], node: Node, result: JSON) -> None:
    """Put a node's result into the state; see :class:`Workflow`."""
    loops = node.uses == "reflection.loop"
    if loops:
        # It may be left from a loop that failed before; this loop's result sets it again if it failed too.
        state.pop("exhausted", None)
    if isinstance(result, Mapping) and (loops or node.output is None):
        state.update(result)
    if node.output is not None:
        state[node.output] = result
    elif result is not None and not isinstance(result, Mapping):
        raise WorkflowError(
            f"{node.place}: the result is not an object that could be merged into the state, but {shown(result)}:"
            " name it with `output:`"
        )
