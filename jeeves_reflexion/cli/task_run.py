"""``jeeves-reflexion bench my_tasks.jsonl``: load agent, evaluator, scorer and reflector by name, and run the tasks."""

from __future__ import annotations

import copy
import datetime
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import click

from jeeves_reflexion.agents import ReAct
from jeeves_reflexion.cli.bench_options import check_executor, check_folder, check_prices, tracked
from jeeves_reflexion.cli.failures import Interrupted
from jeeves_reflexion.cli.models import model_at
from jeeves_reflexion.cli.stores import embedder_for
from jeeves_reflexion.cli.user_code import load, of_user
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.evaluators import Judge
from jeeves_reflexion.experiments import (
    ArmName,
    Expected,
    PlainProgress,
    Plan,
    Results,
    RunLog,
    arm_lessons,
    arm_names,
    arm_of,
    check_kinds,
    cost_table,
    estimate,
    figures,
    read_tasks,
    recall_settings,
    run_experiment,
)
from jeeves_reflexion.experiments.arms import order_json
from jeeves_reflexion.experiments.executors import Tools
from jeeves_reflexion.experiments.location import LessonLocation, RunLocation, run_location
from jeeves_reflexion.experiments.report import write_report
from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.models import Prices, RecordedModel
from jeeves_reflexion.models.names import kind_and_name
from jeeves_reflexion.protocols import ChatModel
from jeeves_reflexion.summary import counted
from jeeves_reflexion.types import JSON, Attempt, Evaluation, Task
from vectorstores import Embedder, VectorStore

NAMESPACE: Final = "bench"
MODEL: Final = "model"
AGENTS_MODEL: Final = "the agent's own model"
_NOBODY_REFLECTS: Final = "nobody writes lessons: add --reflector or --model, or choose arms without lessons"
# Options that a resumed run must repeat, besides plan and tasks.
_CONFIGURED: Final = (
    "agent",
    "evaluator",
    "scorer",
    "reflector",
    "model",
    "min_similarity",
    "withhold",
)


@dataclass(frozen=True, slots=True)
class Order:
    """The ``options`` of the command, and the values made from them."""

    options: Mapping[str, Any]
    plan: Plan
    prices: Prices | None
    out: Path
    runs_on: RunLocation

    @property
    def users(self) -> tuple[str | None, ...]:
        """The user's own parts, as ``module:name``."""
        return tuple(self.options[name] for name in ("agent", "evaluator", "scorer", "reflector"))

    def embedder(self) -> Embedder:
        """Return the embedder of the run's lessons."""
        return embedder_for(self.options["embedder"], None, "")


def order_of(options: Mapping[str, Any]) -> Order:
    """Read the options; raises ``click.UsageError`` if they contradict each other."""
    check_folder(options)
    check_executor(options)
    prices, endpoint = check_prices(options), options["endpoint"]
    judging = options["evaluator"] == "judge"
    if options["judged_by"] == "oracle" and judging:
        raise click.UsageError(
            "--evaluator judge does not see the gold answer: its runs are judged by self, not oracle"
        )
    if options["scorer"] == "judge":
        raise click.UsageError("--scorer needs the gold answer: exact, or MODULE:NAME")
    if not options["model"] and (endpoint.base_url is not None or endpoint.api_key_env is not None):
        raise click.UsageError("--base-url and --api-key-env go with --model")
    plan = Plan(
        arms=arm_names(options["arms"]),
        trials=options["trials"],
        seeds=options["seeds"],
        workers=options["workers"],
        k=options["k"],
        holdout=options["holdout"],
        judged_by=options["judged_by"] or ("self" if judging else "oracle"),
        max_cost_usd=options["max_cost"],
    )
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    out = options["out"] or Path("runs") / f"{options['tasks'].stem}-{stamp}"
    _, named = kind_and_name(options["model"] or "")
    known = Prices(*prices) if prices else endpoint.prices.get(named)
    return Order(options, plan, known, out, run_location(options))


def run(order: Order, *, as_json: bool) -> int:
    """Run the tasks, print the results and return the exit code: 1 if the run stopped early."""
    options = order.options
    order.runs_on.check(order.plan.arms)
    tasks = read_tasks(options["tasks"])
    check_kinds(order.plan.arms, tasks)
    with of_user(*order.users):
        load_parts(order, tasks, None)  # reports a wrong name before anything else
    expected = None if options["expected_tokens"] is None else Expected(*options["expected_tokens"])
    before = estimate(order.plan, tasks, expected, order.prices)
    click.echo(f"{counted(len(tasks), 'task')}: {before}", err=True)
    if options["dry_run"]:
        if as_json:
            click.echo(json.dumps({"tasks": len(tasks), "estimate": before.as_json()}, indent=2))
        return 0
    # Opened before anything is spent, so that a wrong address is reported now.
    track = tracked(options["track"], options["tasks"].stem)
    try:
        with of_user(*order.users):
            results = anyio.run(_run, order, tasks)
    except KeyboardInterrupt:
        raise Interrupted(
            f"the run is kept in {order.out}: continue it with --resume --out {order.out}"
        ) from None
    written = write_report(results, order.out / "report", title=options["tasks"].stem)
    track(results, order.out)
    if as_json:
        answer = {"run": str(order.out), "report": str(written.html), "estimate": before.as_json()}
        click.echo(json.dumps({**answer, **figures(results)}, indent=2))
    else:
        click.echo(f"{_summary(order, results)}\nReport: {written.html}")
    return 1 if results.interrupted else 0


def _summary(order: Order, results: Results) -> str:
    """Return the summary that is printed at the end."""
    lines = [
        f"Solved so far, by trial ({results.judged_by}-judged; 95 % Wilson interval):",
        results.table(),
        "What it took:",
        cost_table({arm: results.cost(arm) for arm in results.arms}),
    ]
    if results.interrupted:
        lines.append(f"Stopped: {results.interrupted}. Continue with --resume --out {order.out}")
    return "\n\n".join([*lines, f"Run: {order.out}"])


async def _run(order: Order, tasks: list[Task]) -> Results:
    log = RunLog(order.out)
    async with AsyncExitStack() as open_things:
        model: ChatModel | None = None
        if order.options["model"]:
            asked = model_at(order.options["endpoint"], order.options["model"], order.prices)
            model = await open_things.enter_async_context(asked)
        parts = load_parts(order, tasks, model)
        await log.open(_config(order), resume=order.options["resume"])
        open_things.callback(log.close)
        models: dict[str, ChatModel] = {}
        if model is not None:
            models[MODEL] = await log.recorded(model)
        if isinstance(parts.agent, ReAct) and order.options["agent"] is not None:
            own = parts.agent.model
            models[AGENTS_MODEL] = own if isinstance(own, RecordedModel) else await log.recorded(own)
        setup = TaskSetup(order, tuple(tasks), order.runs_on.lesson_location(NAMESPACE, order.out).of(log))
        tools = await open_things.enter_async_context(setup.open(models.__getitem__))
        executor = await open_things.enter_async_context(
            order.runs_on.executor(setup, workers=order.plan.workers, models=models)
        )
        return await run_experiment(
            order.plan,
            tasks,
            tools.make_loop,
            log=log,
            watcher=PlainProgress(),
            scorer=tools.scorer,
            executor=executor,
        )


def _config(order: Order) -> dict[str, JSON]:
    prices, endpoint = order.prices, order.options["endpoint"]
    return {
        "benchmark": "tasks",
        **{name: order.options[name] for name in _CONFIGURED},
        **order_json(order.options["order"]),
        "base_url": endpoint.base_url,
        "prices": None if prices is None else [prices.input, prices.output],
        "embedder": order.embedder().id,
        # Left out by default, so that runs of earlier versions, which had no such option, can be resumed.
        **({} if endpoint.max_tokens is None else {"max_tokens": endpoint.max_tokens}),
    }


@dataclass(frozen=True, slots=True)
class TaskSetup:
    """Makes the loops of a run, in this process or in a worker."""

    order: Order
    tasks: tuple[Task, ...]
    location: LessonLocation

    @asynccontextmanager
    async def open(self, models: Callable[[str], ChatModel]) -> AsyncIterator[Tools]:
        """Load agent, evaluator, scorer and reflector, and open the lessons."""
        parts = load_parts(self.order, self.tasks, models(MODEL) if self.order.options["model"] else None)
        if isinstance(parts.agent, ReAct) and self.order.options["agent"] is not None:
            agent = copy.copy(parts.agent)
            agent.model = models(AGENTS_MODEL)
            parts = replace(parts, agent=agent)
        async with self.location.store(self.order.embedder()) as store:
            yield Tools(partial(self._loop, parts, store), parts.scorer)

    def _loop(self, parts: Parts, store: VectorStore, arm: ArmName, seed: int) -> Reflexion:
        options, plan = self.order.options, self.order.plan
        scope = self.location.scope(store, arm, seed)
        settings = recall_settings(
            options["min_similarity"], withhold=options["withhold"], order=options["order"]
        )
        return Reflexion(
            parts.agent,
            model=parts.model,
            evaluator=parts.evaluator,
            reflector=parts.reflector or (None if parts.model else _no_reflector),
            lesson_store=arm_lessons(arm, scope, self.tasks, settings=settings, seed=seed),
            max_attempts=plan.trials,
            top_k_lessons=plan.k,
        )


# -- agent, evaluator, scorer and reflector


@dataclass(frozen=True, slots=True)
class Parts:
    """The loaded parts of a run; ``model`` is None without ``--model``."""

    agent: Any
    evaluator: Any
    scorer: Any
    reflector: Any
    model: ChatModel | None


def load_parts(order: Order, tasks: Sequence[Task], model: ChatModel | None) -> Parts:
    """Load the named parts, and raise :class:`ConfigurationError` for a combination that can't work.

    ``model`` may be None for a check before the model is made.
    """
    options = order.options
    agent, evaluator, reflector = (options[name] for name in ("agent", "evaluator", "reflector"))
    if not options["model"]:
        if agent is None:
            raise ConfigurationError("no agent: add --agent MODULE:NAME or --model")
        if evaluator == "judge":
            raise ConfigurationError("--evaluator judge needs --model")
        if reflector is None and any(arm_of(arm).learns for arm in order.plan.arms):
            raise ConfigurationError(_NOBODY_REFLECTS)
    judge = None if model is None else partial(_blind, Judge(model))
    own = None if model is None else ReAct(model)
    return Parts(
        own if agent is None else load("--agent", agent),
        judge if evaluator == "judge" else _verdict("--evaluator", evaluator, tasks),
        None if options["scorer"] is None else _verdict("--scorer", options["scorer"], tasks),
        None if reflector is None else load("--reflector", reflector),
        model,
    )


def _verdict(option: str, name: str, tasks: Sequence[Task]) -> Any:  # noqa: ANN401 - an evaluator of whatever form
    if name != "exact":
        return load(option, name)
    lacking = [task.id for task in tasks if not isinstance(task.reference, str | int | float)]
    if lacking:
        raise ConfigurationError(
            f"exact needs a reference, a text or a number, for every task; {len(lacking)} have none, such as "
            f"{lacking[0]}"
        )
    return exact


async def exact(task: Task, attempt: Attempt) -> Evaluation:
    """Compare an output with the reference, ignoring case and white space. The rationale reveals only yes or no."""
    same = _folded(attempt.output) == _folded(str(task.reference))
    return Evaluation(
        float(same), passed=same, rationale="the answer is right" if same else "the answer is wrong"
    )


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


async def _blind(judge: Judge, task: Task, attempt: Attempt) -> Evaluation:
    """Judge without the gold answer, which a self-judged run must not use."""
    return await judge(task.public(), attempt)


def _no_reflector(task: Task, trials: object) -> str:
    """Take the place of a reflector in arms that learn nothing."""
    raise ConfigurationError(_NOBODY_REFLECTS)
