"""ReAct: a model that thinks, acts with tools and observes the results (Yao et al. 2023)."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from string import Template

from jeeves_reflexion.agents.reply import FINISH, parse_reply
from jeeves_reflexion.agents.tools import Tool, as_tool
from jeeves_reflexion.callables import side_by_side
from jeeves_reflexion.errors import ConfigurationError, ModelError, ModelResponseError, ToolError
from jeeves_reflexion.events import StepTaken
from jeeves_reflexion.models.ask import ask
from jeeves_reflexion.protocols import ChatModel, Completion, Message, Sampling, ToolCall
from jeeves_reflexion.session import Session
from jeeves_reflexion.text import fence, prompt_of, read_prompt, render_blocks
from jeeves_reflexion.types import NO_USAGE, Attempt, Step, Task, Usage
from jeeves_reflexion.values import check_whole

_PACKAGE = "jeeves_reflexion.agents"
_STOP = "\nObservation:"
_SILENCE = Completion("")
_FILTERED = "content_filter"
_STOPPED = {_FILTERED: _FILTERED, "refusal": "refusal"}
_REPEATED = "repeated_action"
_REPEATED_NOTE = (
    "You did this before, and the result was the same. Do something else, or finish with your answer."
)
_CRITIQUE_NOTE = "A critique of the steps so far. Weigh it, then go on with the task."


@dataclass(slots=True)
class _Trajectory:
    """What has happened so far in one attempt."""

    session: Session
    max_repeats: int | None = None
    started: float = field(default_factory=time.monotonic)
    steps: list[Step] = field(default_factory=list)
    usage: Usage = NO_USAGE
    last: Completion = _SILENCE
    repeated: int = 0
    _turn: list[tuple[str, str]] = field(default_factory=list)

    async def add(self, step: Step) -> None:
        self.steps.append(step)
        await self.session.tell(StepTaken, number=len(self.steps), step=step)

    def stuck(self, before: int) -> bool:
        """Whether a turn, the steps after the first ``before``, has repeated the last one too often."""
        if self.max_repeats is None:
            return False
        turn = [(step.action, step.observation) for step in self.steps[before:]]
        same = turn == self._turn and any(action for action, _ in turn)
        self.repeated, self._turn = self.repeated + 1 if same else 0, turn
        return self.repeated > self.max_repeats

    def advice(self) -> list[Message]:
        """Return what the model is told before its next step: that it repeats itself, and critiques of its steps."""
        text = self.session.inbox.take()
        critiques = [fence("critique", text, note=_CRITIQUE_NOTE)] if text.strip() else []
        return [Message("user", note) for note in ([_REPEATED_NOTE] if self.repeated else []) + critiques]

    def attempt(self, output: str, *, error: str | None = None, interrupted: str | None = None) -> Attempt:
        return Attempt(
            output=output,
            steps=tuple(self.steps),
            usage=self.usage,
            error=error,
            interrupted=interrupted,
            seconds=time.monotonic() - self.started,
        )


class ReAct:
    """The default agent: a model in a loop with tools.

    A turn is one call of the model. Tools are called natively if ``model.supports_tools``, otherwise in the text form
    of the paper. Several calls in one turn run at once, except for tools that are ``alone``; results and steps keep the
    order of the calls. Without tools the first completion is the answer. The system prompt includes the session's
    blocks, fenced as data.

    ``interrupted`` of an attempt says why it ended early: ``"max_turns"``, ``"repeated_action"``, ``"max_tokens"`` (the
    model's limit cut the answer), ``"content_filter"`` or ``"refusal"``. A ``ModelError`` after the first step ends the
    attempt with its steps and ``error``; before, it is raised. ``BudgetExceededError`` is always raised.

    Args:
        model: The model to ask.
        tools: Tools, or typed functions.
        max_turns: The most calls of the model.
        max_repeats: How many turns may repeat the actions and results of the one before. The model is told each time,
            and one more ends the attempt. None allows any number and tells nothing.
        system_prompt: A text, or a ``Path`` to one, in place of the default.
        sampling: How the model is asked.
    """

    name = "react"

    def __init__(
        self,
        model: ChatModel,
        tools: Sequence[Tool | Callable[..., object]] = (),
        *,
        max_turns: int = 10,
        max_repeats: int | None = 1,
        system_prompt: str | Path | None = None,
        sampling: Sampling | None = None,
    ) -> None:
        self.max_turns = check_whole("max_turns", max_turns)
        self.max_repeats = None if max_repeats is None else check_whole("max_repeats", max_repeats, least=0)
        self.model = model
        self.tools = tuple(as_tool(each) for each in tools)
        self._sampling = sampling
        self._by_name = {each.name: each for each in self.tools}
        self._alone = {each.name for each in self.tools if each.alone}
        if len(self._by_name) < len(self.tools):
            raise ConfigurationError(
                f"two tools have one name: {', '.join(sorted(t.name for t in self.tools))}; rename one with name= of "
                "as_tool or prefix= of mcp_tools"
            )
        if any(name.lower() == FINISH for name in self._by_name):
            raise ConfigurationError(
                "a tool must not be called Finish: in the text form that gives the answer"
            )
        self._system = read_prompt(system_prompt, _PACKAGE, "system.md")
        form = Template(read_prompt(None, _PACKAGE, "form.md"))
        self._form = form.substitute(tools="\n".join(map(_listed, self.tools)))
        self._unreadable = Template(read_prompt(None, _PACKAGE, "unreadable.md"))

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Try the task once."""
        so_far = _Trajectory(session, self.max_repeats)
        try:
            if not self.tools:
                opening = self._opening(task, session)
                so_far.last = await ask(self.model, opening, sampling=self._sampling)
                so_far.usage = so_far.last.usage
                return _finished(so_far, so_far.last.text)
            if self.model.supports_tools:
                try:
                    return await self._native(task, so_far)
                except ModelResponseError:
                    # The first call may show that the server has no tools: then the text form is used.
                    if so_far.steps or self.model.supports_tools:
                        raise
            return await self._textual(task, so_far)
        except ModelError as error:
            filtered = isinstance(error, ModelResponseError) and error.code == _FILTERED
            if not (so_far.steps or filtered):
                raise
            return so_far.attempt(
                so_far.last.text,
                error=f"{type(error).__name__}: {error}",
                interrupted=_FILTERED if filtered else None,
            )

    async def _native(self, task: Task, so_far: _Trajectory) -> Attempt:
        messages = self._opening(task, so_far.session)
        specs = [each.spec for each in self.tools]
        for _ in range(self.max_turns):
            completion = await ask(self.model, messages, tools=specs, sampling=self._sampling)
            so_far.last, so_far.usage = completion, so_far.usage + completion.usage
            if not completion.tool_calls or completion.finish_reason in _STOPPED:
                return _finished(so_far, completion.text)
            messages.append(completion.message())
            thought, before = completion.text.strip(), len(so_far.steps)
            batches: list[list[ToolCall]] = []
            for alone, group in groupby(completion.tool_calls, key=lambda call: call.name in self._alone):
                together = list(group)
                batches += [[call] for call in together] if alone else [together]
            for batch in batches:
                observed = await side_by_side(
                    [functools.partial(self._observe, call.name, call.arguments) for call in batch]
                )
                for call, (observation, failed) in zip(batch, observed, strict=True):
                    messages.append(Message("tool", observation, tool_call_id=call.id))
                    action = f"{call.name} {call.arguments}".strip()
                    await so_far.add(Step(thought, action, observation, failed=failed))
                    thought = ""
            if so_far.stuck(before):
                return so_far.attempt(so_far.last.text, interrupted=_REPEATED)
            messages += so_far.advice()
        return so_far.attempt(so_far.last.text, interrupted="max_turns")

    async def _textual(self, task: Task, so_far: _Trajectory) -> Attempt:
        messages = self._opening(task, so_far.session, textual=True)
        given = self._sampling or Sampling()
        sampling = replace(given, stop=(*given.stop, _STOP))
        for _ in range(self.max_turns):
            completion = await ask(self.model, messages, sampling=sampling)
            so_far.last, so_far.usage = completion, so_far.usage + completion.usage
            if completion.finish_reason in _STOPPED:
                return _finished(so_far, completion.text)
            reply = parse_reply(completion.text)
            if reply.finished:
                await so_far.add(Step(reply.thought, reply.action))
                return _finished(so_far, reply.argument)
            if reply.problem:
                names = ", ".join(self._by_name)
                observation = self._unreadable.substitute(problem=reply.problem, names=names)
                failed = True
            else:
                observation, failed = await self._observe(reply.tool, reply.argument, textual=True)
            # The provider's own format would bring back what was cut off, and tool calls without a result.
            opaque = {} if reply.cut or completion.tool_calls else completion.opaque
            # The reply as it was read, without an observation that the model made up.
            read = (
                f"Thought: {reply.thought}\nAction: {reply.action}"
                if reply.thought
                else f"Action: {reply.action}"
            )
            messages.append(Message("assistant", read if reply.action else completion.text, opaque=opaque))
            messages.append(Message("user", f"Observation:\n{fence('observation', observation)}"))
            await so_far.add(Step(reply.thought, reply.action, observation, failed=failed))
            if so_far.stuck(len(so_far.steps) - 1):
                return so_far.attempt(so_far.last.text, interrupted=_REPEATED)
            messages += so_far.advice()
        return so_far.attempt(so_far.last.text, interrupted="max_turns")

    def _opening(self, task: Task, session: Session, *, textual: bool = False) -> list[Message]:
        form = self._form if textual else ""
        system = "\n\n".join(filter(None, (self._system, form, render_blocks(session.blocks))))
        question = Message("user", prompt_of(task))
        return [Message("system", system), question] if system else [question]

    async def _observe(self, name: str, arguments: str, *, textual: bool = False) -> tuple[str, bool]:
        """Return the result of a call, and whether it failed."""
        tool = self._by_name.get(name)
        if tool is None:
            return f"Error: there is no tool {name!r}; there are: {', '.join(self._by_name)}", True
        try:
            return await tool.call(tool.from_text(arguments) if textual else arguments), False
        except ToolError as error:
            return f"Error: {error}", True


def _finished(so_far: _Trajectory, output: str) -> Attempt:
    reason = so_far.last.finish_reason
    return so_far.attempt(output, interrupted="max_tokens" if reason == "length" else _STOPPED.get(reason))


def _listed(tool: Tool) -> str:
    lines = [f"- {tool.usage}: {tool.spec.description}" if tool.spec.description else f"- {tool.usage}"]
    properties = tool.spec.parameters.get("properties")
    for name, part in properties.items() if isinstance(properties, dict) else ():
        if isinstance(part, dict) and part.get("description"):
            lines.append(f"    {name}: {part['description']}")
    return "\n".join(lines)
