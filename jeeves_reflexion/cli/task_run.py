"""``jeeves-reflexion bench my_tasks.jsonl``: load agent, evaluator, scorer and reflector by name, and run the tasks."""

from __future__ import annotations

import copy
import datetime
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
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
from vectorstores import Embedder

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
        parts = load_parts(order, tasks)  # reports a wrong name before anything else
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
            results = anyio.run(_run, order, tasks, parts)
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
        lines = [
            f"Solved so far, by trial ({results.judged_by}-judged; 95 % Wilson interval):",
            results.table(),
            "What it took:",
            cost_table({arm: results.cost(arm) for arm in results.arms}),
        ]
        if results.interrupted:
            lines.append(f"Stopped: {results.interrupted}. Continue with --resume --out {order.out}")
        click.echo("\n\n".join([*lines, f"Run: {order.out}\nReport: {written.html}"]))
    return 1 if results.interrupted else 0


async def _run(order: Order, tasks: list[Task], parts: Parts) -> Results:
    log = RunLog(order.out)
    async with AsyncExitStack() as open_things:
        model: ChatModel | None = None
        if order.options["model"]:
            asked = model_at(order.options["endpoint"], order.options["model"], order.prices)
            model = await open_things.enter_async_context(asked)
        await log.open(_config(order), resume=order.options["resume"])
        open_things.callback(log.close)
        models: dict[str, ChatModel] = {}
        if model is not None:
            models[MODEL] = await log.recorded(model)
        if isinstance(parts.agent, ReAct):
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
        options, plan = self.order.options, self.order.plan
        parts = load_parts(self.order, self.tasks)
        agent, evaluator, reflector, model = parts.agent, parts.evaluator, parts.reflector, None
        if options["model"]:
            model = models(MODEL)
            agent = ReAct(model) if agent is None else agent
            evaluator = partial(_blind, Judge(model)) if evaluator is None else evaluator
        elif reflector is None:
            reflector = _no_reflector
        if isinstance(parts.agent, ReAct):
            agent = copy.copy(parts.agent)
            agent.model = models(AGENTS_MODEL)
        settings = recall_settings(
            options["min_similarity"], withhold=options["withhold"], order=options["order"]
        )
        async with self.location.store(self.order.embedder()) as store:

            def make_loop(arm: ArmName, seed: int) -> Reflexion:
                scope = self.location.scope(store, arm, seed)
                return Reflexion(
                    agent,
                    model=model,
                    evaluator=evaluator,
                    reflector=reflector,
                    lesson_store=arm_lessons(arm, scope, self.tasks, settings=settings, seed=seed),
                    max_attempts=plan.trials,
                    top_k_lessons=plan.k,
                )

            yield Tools(make_loop, parts.scorer)


# -- agent, evaluator, scorer and reflector


@dataclass(frozen=True, slots=True)
class Parts:
    """The loaded parts of a run. Those that are None are left out, or ``--model`` takes their place."""

    agent: Any
    evaluator: Any
    scorer: Any
    reflector: Any


def load_parts(order: Order, tasks: Sequence[Task]) -> Parts:
    """Load the named parts, and raise :class:`ConfigurationError` for a combination that can't work."""
    options = order.options
    agent, evaluator, reflector = (options[name] for name in ("agent", "evaluator", "reflector"))
    if not options["model"]:
        if agent is None:
            raise ConfigurationError("no agent: add --agent MODULE:NAME or --model")
        if evaluator == "judge":
            raise ConfigurationError("--evaluator judge needs --model")
        if reflector is None and any(arm_of(arm).learns for arm in order.plan.arms):
            raise ConfigurationError(_NOBODY_REFLECTS)
    return Parts(
        None if agent is None else load("--agent", agent),
        None if evaluator == "judge" else _verdict("--evaluator", evaluator, tasks),
        None if options["scorer"] is None else _verdict("--scorer", options["scorer"], tasks),
        None if reflector is None else load("--reflector", reflector),
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
    said, wanted = (" ".join(text.split()).casefold() for text in (attempt.output, str(task.reference)))
    same = said == wanted
    return Evaluation(
        float(same), passed=same, rationale="the answer is right" if same else "the answer is wrong"
    )


async def _blind(judge: Judge, task: Task, attempt: Attempt) -> Evaluation:
    """Judge without the gold answer, which a self-judged run must not use."""
    return await judge(task.public(), attempt)


def _no_reflector(task: Task, trials: object) -> str:
    """Take the place of a reflector in arms that learn nothing."""
    raise ConfigurationError(_NOBODY_REFLECTS)
