"""Modules of DSPy."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
from typing import Any, ClassVar, cast

import dspy
from dspy.utils.callback import BaseCallback
from dspy.utils.usage_tracker import UsageTracker

from jeeves_reflexion.adapters.base import OWN, OptionsAdapter, Trace, adapter_for, joined
from jeeves_reflexion.callables import is_async, run
from jeeves_reflexion.errors import ConfigurationError, described


class DSPyModule(OptionsAdapter):
    """A ``dspy.Module``, such as ``ReAct`` or ``ChainOfThought``; ``options`` are its further inputs.

    The prompt goes to ``input_field``, which is required if the module has several inputs. The answer is
    ``output_field``, which defaults to the only output field, or to all of them as data. A module without ``aforward``
    runs in a worker thread.
    """

    framework = "dspy"
    refused: ClassVar = {"history": OWN}

    def __init__(
        self,
        agent: dspy.Module,
        *,
        input_field: str | None = None,
        output_field: str | None = None,
        **options: Any,  # noqa: ANN401 - its own
    ) -> None:
        super().__init__(agent, **options)
        inputs, outputs = _fields(agent)
        inputs = [name for name in inputs if name not in options]
        if input_field is None and len(inputs) != 1:
            taken = f"takes {', '.join(inputs)}" if inputs else "does not say what it takes"
            raise ConfigurationError(
                f"dspy: {self.name} {taken}: pass adapt(module, input_field='the one that gets the prompt', ...)"
            )
        if output_field is not None and outputs and output_field not in outputs:
            raise ConfigurationError(
                f"dspy: {self.name} has no output {output_field!r}; it has {', '.join(outputs)}"
            )
        self._input = input_field or inputs[0]
        self._outputs = [output_field] if output_field else outputs

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run a copy of the module with the lessons in the instructions of each of its predictors."""
        module = _copy(self.agent, {})
        ends = set[int]()  # the tools by which DSPy's own agents end; their calls are not steps
        for kind, end in ((dspy.ReAct, "finish"), (getattr(dspy, "ReActV2", None), "submit")):
            for _, agent in module.named_sub_modules(kind) if kind else ():
                agent.tools = {name: _in_thread(tool) for name, tool in agent.tools.items()}
                ends |= {id(tool) for name, tool in agent.tools.items() if name == end}
        for _, predictor in module.named_sub_modules(dspy.Predict):
            told = joined(predictor.signature.instructions, lessons)
            predictor.signature = predictor.signature.with_instructions(told)
            its_class: Any = type(predictor)
            predictor.__class__ = _listening(its_class)
        heard = _Heard(trace, ends)
        inputs = {**self.options, self._input: prompt}
        settings = {"callbacks": [*(dspy.settings.callbacks or ()), heard], "usage_tracker": heard.tracker}
        try:
            with dspy.context(**settings):
                if hasattr(module, "aforward"):
                    answer = await module.acall(**inputs)
                else:
                    call = functools.partial(module, **inputs)
                    answer = await run(call, call)
        except asyncio.CancelledError:
            heard.cancelled = True
            raise
        await heard.tell()
        if not isinstance(answer, dspy.Prediction):
            return answer
        found = dict(answer.items())  # toDict() makes dicts of typed values
        data = {name: found[name] for name in self._outputs or found if name in found}
        return next(iter(data.values())) if len(data) == 1 else data


class _Heard(BaseCallback):
    """Collects tool calls for the trace, since DSPy's callbacks can't await."""

    def __init__(self, trace: Trace, ends: set[int]) -> None:
        self.thought = ""
        self.cancelled = False
        self.loop = asyncio.get_running_loop()
        self.tracker = _Tracker(dspy.settings.usage_tracker)
        self._trace = trace
        self._ends = ends
        self._calls = dict[str, tuple[str, object, str]]()
        self._done = list[tuple[tuple[str, object, str], object, bool]]()

    def on_tool_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:  # noqa: ANN401
        if id(instance) not in self._ends:
            thought, self.thought = self.thought, ""
            self._calls[call_id] = instance.name, inputs.get("kwargs", inputs), thought

    def on_tool_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:  # noqa: ANN401
        call = self._calls.pop(call_id, None)
        if call is not None:
            result = outputs if exception is None else described(exception)
            self._done.append((call, result, exception is not None))

    async def tell(self, prediction: object = None) -> None:
        """Report to the trace, after a call of a predictor with its prediction.

        Raises :class:`BudgetExceededError` if the run has used up its budget.
        """
        if self.cancelled:  # ends a thread that was left behind
            raise asyncio.CancelledError
        if prediction is not None:
            thought = getattr(prediction, "next_thought", None) or getattr(prediction, "reasoning", None)
            self.thought = str(thought or "")
        done, self._done = self._done, []
        for (name, arguments, said), result, failed in done:
            await self._trace.tool(name, arguments, result, thought=said, failed=failed)
        entries, self.tracker.entries = self.tracker.entries, []
        for usage in entries:
            self._trace.used(1, usage.get("prompt_tokens"), usage.get("completion_tokens"))
        self._trace.session.spend.check()


class _Tracker(UsageTracker):
    """Collects the usage of each model call; answers from DSPy's cache are not calls."""

    def __init__(self, outer: UsageTracker | None) -> None:
        super().__init__()
        self._outer = outer
        self.entries = list[dict[str, Any]]()

    def add_usage(self, lm: str, usage_entry: dict[str, Any]) -> None:
        self.entries.append(usage_entry)
        super().add_usage(lm, usage_entry)
        if self._outer is not None:
            self._outer.add_usage(lm, usage_entry)


@functools.cache
def _listening(kind: Any) -> Any:  # noqa: ANN401 - a class of predictors
    """Return a subclass of a predictor that reports the tools before it and its own call.

    A function set on the object would be lost, since modules such as ``BestOfN`` copy their predictors again.
    """

    class Listening(kind):
        async def aforward(self, **inputs: object) -> object:
            heard = _current()
            await heard.tell()
            prediction = await super().aforward(**inputs)
            await heard.tell(prediction)
            return prediction

        def forward(self, **inputs: object) -> object:
            heard = _current()
            asyncio.run_coroutine_threadsafe(heard.tell(), heard.loop).result()
            prediction = kind.forward(self, **inputs)
            asyncio.run_coroutine_threadsafe(heard.tell(prediction), heard.loop).result()
            return prediction

    Listening.__name__ = Listening.__qualname__ = kind.__name__
    return Listening


def _current() -> _Heard:
    # DSPy's settings reach its worker threads too.
    return next(each for each in reversed(dspy.settings.callbacks) if isinstance(each, _Heard))


def _copy(value: Any, made: dict[int, Any]) -> Any:  # noqa: ANN401 - any attribute of a module
    """Return a copy of a module, its modules and lists. Tools, models and other objects are shared.

    ``deepcopy`` would also copy an object whose method is a tool.
    """
    if id(value) in made:
        return made[id(value)]
    if isinstance(value, dspy.Module):
        made[id(value)] = new = copy.copy(value)
        new.__dict__.update({name: _copy(each, made) for name, each in value.__dict__.items()})
        return new
    if type(value) is dict:
        return {name: _copy(each, made) for name, each in value.items()}
    if type(value) in {list, tuple}:
        return type(value)(_copy(each, made) for each in value)
    return value


def _in_thread(tool: Any) -> Any:  # noqa: ANN401 - a tool of theirs
    """Return a copy of a sync tool that DSPy's own agents run in a thread, not on the event loop."""
    if is_async(tool.func):
        return tool
    moved, kind = copy.copy(tool), cast("Any", type(tool))
    moved.__class__ = _threaded(kind)
    return moved


@functools.cache
def _threaded(kind: Any) -> Any:  # noqa: ANN401 - a class of tools
    """Return a subclass of a tool that runs in a thread when it is awaited."""

    class Threaded(kind):
        async def acall(self, **arguments: object) -> object:
            return await run(self.func, lambda: kind.__call__(self, **arguments))

    Threaded.__name__ = Threaded.__qualname__ = kind.__name__
    return Threaded


def _fields(module: dspy.Module) -> tuple[list[str], list[str]]:
    """Return the names of a module's inputs and outputs; a user's own module says only what it takes."""
    thinks = isinstance(module, dspy.ChainOfThought)
    for holder in (module, getattr(module, "predict", None) if thinks else None):
        signature: Any = getattr(holder, "signature", None)
        if hasattr(signature, "input_fields"):
            outputs = list(signature.output_fields)
            if thinks and len(outputs) > 1:
                outputs = [name for name in outputs if name != "reasoning"]
            return list(signature.input_fields), outputs
    forward = getattr(type(module), "aforward", None) or getattr(type(module), "forward", None)
    if forward is None:
        raise ConfigurationError(f"dspy: {type(module).__name__} has no forward")
    parameters = list(inspect.signature(forward).parameters.values())[1:]
    return [p.name for p in parameters if p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD}], []


adapter = adapter_for(DSPyModule, dspy.Module)
