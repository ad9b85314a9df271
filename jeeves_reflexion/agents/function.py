"""Makes an agent of any callable."""

from __future__ import annotations

import functools
import inspect
import time
import typing
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import is_dataclass, replace
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from jeeves_reflexion.callables import innermost, is_async, run, signature_of
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.protocols import Agent
from jeeves_reflexion.session import Meter, Session
from jeeves_reflexion.text import prompt_of, render_blocks
from jeeves_reflexion.types import Attempt, Task
from jeeves_reflexion.values import plain_number

# Attributes in which chat frameworks keep a conversation. An object that has one may keep a conversation.
_HISTORIES = (
    "messages",
    "history",
    "chat_history",
    "message_history",
    "conversation",
    "memory",
    "checkpointer",
)
_BY_PLACE = inspect.Parameter.POSITIONAL_OR_KEYWORD
_STARRED = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
_EXPECTED = "it must take (prompt), (task), (prompt, session) or (task, session)"


def as_agent(function: Callable[..., object]) -> Agent:
    """Return an agent that calls a function; an object that is already an agent is returned unchanged.

    The function is sync or async. Its first parameter gets the :class:`Task` if it is annotated so, or is called
    ``task`` and has no annotation; otherwise it gets the prompt, followed by ``expected_output`` if the task has one. A
    parameter annotated :class:`Session` or called ``session`` gets the session. Without one, the prompt includes the
    lessons, fenced as data; if the function's object then seems to keep a conversation, there is a ``UserWarning``,
    because the lessons of one attempt would stay in it and influence later ones.

    The function returns a text, data that judges see as JSON (a Pydantic model, a dataclass, a dict, a list, a number),
    or an :class:`Attempt` with its usage. Otherwise the usage is unknown, unless the function asked models of this
    package, which are metered. A sync function runs in a worker thread, which is left behind if the run is cancelled or
    out of time; the process waits for it before it exits.

    The attributes ``retry_safe``, ``reset`` and ``model`` are kept. Raises :class:`ConfigurationError` for a function
    with other parameters.
    """
    return function if _is_agent(function) else FunctionAgent(function)


class FunctionAgent:
    """An agent made of a callable; see :func:`as_agent`."""

    retry_safe: bool = True
    reset: Callable[[Task, Session], Awaitable[None]]
    model: object

    def __init__(self, function: Callable[..., object]) -> None:
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self._function = function
        parameters, hints = _parameters(function, self.name)
        if not parameters or parameters[0].kind not in {inspect.Parameter.POSITIONAL_ONLY, _BY_PLACE}:
            raise ConfigurationError(f"agent {self.name}: {_EXPECTED}; it has no positional parameter")
        first, *others = (each for each in parameters if each.kind not in _STARRED)
        session = next((each for each in others if _means(each, hints, "session", Session)), None)
        surplus = [each.name for each in others if each is not session and each.default is each.empty]
        if surplus:
            raise ConfigurationError(f"agent {self.name}: {_EXPECTED}; it also wants {', '.join(surplus)}")
        if session is not None and session.kind is session.POSITIONAL_ONLY and session is not others[0]:
            raise ConfigurationError(
                f"agent {self.name}: {_EXPECTED}, the session right after the first parameter"
            )
        if session is not None and session is others[0] and session.kind is _BY_PLACE:
            session = session.replace(kind=session.POSITIONAL_ONLY)  # a decorator may take only *args
        self._takes_task, self._session = _means(first, hints, "task", Task), session
        if self._session is None:
            _warn_of_history(function, self.name)
        for attribute in ("retry_safe", "reset", "model"):
            if hasattr(function, attribute):
                setattr(self, attribute, getattr(function, attribute))

    async def __call__(self, task: Task, session: Session) -> Attempt[Any]:
        """Call the function. Raises what it raises, and :class:`ConfigurationError` for an unusable result."""
        started = time.monotonic()
        if self._session is None and (sections := render_blocks(session.blocks)):
            task = replace(task, prompt=f"{task.prompt}\n\n{sections}")
        call = functools.partial(self._function, task if self._takes_task else prompt_of(task))
        if self._session is not None:
            by_place = self._session.kind is inspect.Parameter.POSITIONAL_ONLY
            named = {} if by_place else {self._session.name: session}
            call = functools.partial(call, *([session] if by_place else []), **named)
        meter = Meter()
        try:
            value = await run(self._function, call)
        except Exception:
            meter.charge_unknown()  # the function may have asked a model before it failed
            raise
        seconds = time.monotonic() - started
        if isinstance(value, Attempt):
            return value if value.seconds else replace(value, seconds=seconds)
        if isinstance(value, str):
            return Attempt(output=value, usage=meter.usage(), seconds=seconds)
        return Attempt(output_of(value, self.name), usage=meter.usage(), seconds=seconds, value=value)


def output_of(value: Any, name: str) -> str:  # noqa: ANN401 - whatever an agent of a user returns
    """Return an output that is not a text as JSON, for judges to read."""
    data = plain_number(value)
    is_record = (is_dataclass(data) and not isinstance(data, type)) or hasattr(type(data), "model_dump_json")
    if is_record or isinstance(data, Mapping | list | tuple | int | float):
        try:
            return to_json(data).decode()
        except PydanticSerializationError as error:
            raise ConfigurationError(f"agent {name} returned what can't be shown as JSON: {error}") from error
    raise ConfigurationError(
        f"agent {name} returned {type(value).__name__}: it must return a text (str), an Attempt, or data that can be "
        "shown as JSON (a Pydantic model, a dataclass, a dict, a list, a number)"
    )


def _warn_of_history(function: Callable[..., object], name: str) -> None:
    while isinstance(function, functools.partial):
        function = function.func
    owner = getattr(function, "__self__", function)
    if inspect.isclass(owner):
        return
    for attribute in _HISTORIES:
        kept = inspect.getattr_static(owner, attribute, None)
        if kept is not None and not callable(kept):
            warnings.warn(
                f"agent {name} gets the lessons in its prompt, and {type(owner).__name__}.{attribute} looks like a "
                "conversation that is kept: the lessons of one attempt would influence later ones, even after a lesson "
                "is withheld or retired. Begin a new conversation in each call, or take a parameter `session` and put "
                "session.blocks into the instructions",
                UserWarning,
                stacklevel=4,
            )
            return


def _parameters(
    function: Callable[..., object], name: str
) -> tuple[list[inspect.Parameter], Mapping[str, object]]:
    if not callable(function):
        raise ConfigurationError(
            f"an agent must be callable, and {name} is not: wrap it in a function, `async def agent(prompt): ...`, or "
            "use an adapter, if jeeves_reflexion.adapters has one for its framework"
        )
    parameters = list(signature_of(function, f"agent {name}").parameters.values())
    try:
        hints = typing.get_type_hints(innermost(function))
    except (NameError, TypeError):
        # A name may be imported for type checkers only. Then the annotations are compared as text.
        hints = {p.name: p.annotation for p in parameters if p.annotation is not p.empty}
    return parameters, hints


def _means(parameter: inspect.Parameter, hints: Mapping[str, object], name: str, kind: type) -> bool:
    """Whether a parameter takes a task or a session: judged by its annotation, or without one by its name."""
    if parameter.name not in hints:
        return parameter.name == name
    hint = hints[parameter.name]
    if isinstance(hint, str):
        return hint.rsplit(".", 1)[-1].strip("'\" ") == kind.__name__
    return hint is kind or kind in typing.get_args(hint)


def _is_agent(function: object) -> typing.TypeGuard[Agent]:
    """Whether an object is already an agent. Plain functions are not, since they may return a text."""
    if isinstance(function, FunctionAgent):
        return True
    if inspect.isroutine(function) or inspect.isclass(function) or isinstance(function, functools.partial):
        return False
    if not callable(function) or not is_async(function):
        return False
    parameters, hints = _parameters(function, type(function).__name__)
    if [p.name for p in parameters if p.default is p.empty and p.kind not in _STARRED] != ["task", "session"]:
        return False
    returned = hints.get("return", Attempt)
    return Attempt in {returned, typing.get_origin(returned)} or returned == "Attempt"
