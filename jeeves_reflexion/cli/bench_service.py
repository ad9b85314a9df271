"""``jeeves-reflexion bench my_tasks.jsonl``: what it does."""

from __future__ import annotations

import copy
import datetime
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import click

from jeeves_reflexion.agents import ReAct
from jeeves_reflexion.cli.bench_options import check_early, check_executor, check_folder, check_prices
from jeeves_reflexion.cli.bench_parts import Made, Named, Parts, load_parts, no_reflector, with_recording
from jeeves_reflexion.cli.endpoints import Endpoint, model_at
from jeeves_reflexion.cli.failures import Interrupted
from jeeves_reflexion.cli.user_code import prints_go_to_stderr
from jeeves_reflexion.experiments import (
    ArmName,
    Expected,
    JudgedBy,
    Plan,
    Results,
    RunLog,
    arm_lessons,
    arm_names,
    check_kinds,
    cost_table,
    estimate,
    figures,
    progress_for,
    read_tasks,
    recall_settings,
    run_experiment,
)
from jeeves_reflexion.experiments.comparisons import counted
from jeeves_reflexion.experiments.executors import Tools
from jeeves_reflexion.experiments.location import LessonLocation, RunLocation, run_location
from jeeves_reflexion.experiments.report import write_report
from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.models import Prices
from jeeves_reflexion.protocols import ChatModel
from jeeves_reflexion.types import JSON, Task
from vectorstores import Embedder, HashingEmbedder, VectorStore
from vectorstores.embedders import default_embedder, embedder_or_default

NAMESPACE: Final = "bench"

MODEL: Final = "model"
AGENTS_MODEL: Final = "the agent's own model"


@dataclass(frozen=True, slots=True)
class Order:
    """What the command line asks for."""

    tasks: Path
    parts: Named
    endpoint: Endpoint | None
    prices: Prices | None
    plan: Plan
    out: Path
    resume: bool
    dry_run: bool
    expected: Expected | None
    embedder: str
    min_similarity: float
    withhold: float
    early: float | None
    runs_on: RunLocation


def order_of(options: Mapping[str, Any]) -> Order:
    """Return what the options ask for; raises ``click.UsageError`` for what can't go together."""
    check_folder(options)
    check_executor(options)
    check_early(options["withhold"], options["withhold_early"])
    given = check_prices(options)
    prices = None if given is None else Prices(*given)
    if options["judged_by"] == "oracle" and options["evaluator"] == "judge":
        raise click.UsageError("--evaluator judge sees no gold answer: what it judges is self-judged")
    if options["scorer"] == "judge":
        raise click.UsageError("--scorer needs the gold answer: exact, or MODULE:NAME")
    judged: JudgedBy = options["judged_by"] or ("self" if options["evaluator"] == "judge" else "oracle")
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    return Order(
        options["tasks"],
        Named(options["agent"], options["evaluator"], options["scorer"], options["reflector"]),
        _endpoint(options, prices),
        prices,
        Plan(
            arm_names(options["arms"]),
            options["trials"],
            options["seeds"],
            options["workers"],
            options["k"],
            options["holdout"],
            options["split_seed"],
            judged,
            options["max_cost"],
            on_stop="wait",
        ),
        options["out"] or Path("runs") / f"{options['tasks'].stem}-{stamp}",
        options["resume"],
        options["dry_run"],
        None if options["expected_tokens"] is None else Expected(*options["expected_tokens"]),
        options["embedder"],
        options["min_similarity"],
        options["withhold"],
        options["withhold_early"],
        run_location(options),
    )


def _endpoint(options: Mapping[str, Any], prices: Prices | None) -> Endpoint | None:
    if options["model"]:
        return Endpoint(
            options["model"], options["base_url"], options["api_key_env"], options["timeout"], prices
        )
    if options["base_url"] is not None or options["api_key_env"] is not None:
        raise click.UsageError("--base-url and --api-key-env go with --model")
    return None


def run(order: Order, *, as_json: bool) -> int:
    """Do the run, print what came of it and return the exit code: 1 where it stopped before its end."""
    order.runs_on.check(order.plan.arms)
    tasks = read_tasks(order.tasks)
    check_kinds(order.plan.arms, tasks)
    with prints_go_to_stderr():
        _loaded(order, tasks, None)  # a wrong name is told before anything else
    before = estimate(order.plan, tasks, order.expected, order.prices)
    click.echo(f"{counted(len(tasks), 'task')}: {before}", err=True)
    if order.dry_run:
        if as_json:
            click.echo(json.dumps({"tasks": len(tasks), "estimate": before.as_json()}, indent=2))
        return 0
    try:
        with prints_go_to_stderr():
            results = anyio.run(_run, order, tasks)
    except KeyboardInterrupt:
        raise Interrupted(f"the run is kept in {order.out}: go on with --resume --out {order.out}") from None
    written = write_report(results, order.out / "report", title=order.tasks.stem)
    if as_json:
        answer = {"run": str(order.out), "report": str(written.html), "estimate": before.as_json()}
        click.echo(json.dumps({**answer, **figures(results)}, indent=2))
    else:
        click.echo(summary(order, results))
        click.echo(f"Report: {written.html}")
    return 1 if results.interrupted else 0


def summary(order: Order, results: Results) -> str:
    """Return what a person reads at the end."""
    lines = [
        f"Solved so far, by trial ({results.judged_by}-judged; 95 % Wilson interval, seeds pooled):",
        "",
        results.table(),
        "",
        "What it took:",
        "",
        cost_table({arm: results.cost(arm) for arm in results.arms}),
    ]
    if results.interrupted:
        lines += ["", f"Stopped: {results.interrupted}. Go on with --resume --out {order.out}"]
    return "\n".join([*lines, "", f"Run: {order.out}"])


async def _run(order: Order, tasks: list[Task]) -> Results:
    log = RunLog(order.out)
    embedder = _embedder(order)
    async with AsyncExitStack() as open_things:
        model: ChatModel | None = None
        if order.endpoint is not None:
            model = await open_things.enter_async_context(model_at(order.endpoint))
        parts = _loaded(order, tasks, model)
        await log.open(_config(order, embedder), resume=order.resume)
        open_things.callback(log.close)
        models: dict[str, ChatModel] = {}
        if model is not None:
            models[MODEL] = await log.recorded(model)
        if isinstance(parts.agent, ReAct) and order.parts.agent is not None:
            models[AGENTS_MODEL] = await with_recording(parts.agent.model, log)
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
            watcher=progress_for(sys.stderr),
            scorer=tools.scorer,
            executor=executor,
        )


@dataclass(frozen=True, slots=True)
class TaskSetup:
    """What makes the tries of a run, in this process and in others."""

    order: Order
    tasks: tuple[Task, ...]
    place: LessonLocation

    @asynccontextmanager
    async def open(self, models: Callable[[str], ChatModel]) -> AsyncIterator[Tools]:
        """Load who tries, judges, scores and reflects, and open the lessons."""
        order = self.order
        model = None if order.endpoint is None else models(MODEL)
        parts = _loaded(order, self.tasks, model)
        if isinstance(parts.agent, ReAct) and order.parts.agent is not None:
            agent = copy.copy(parts.agent)
            agent.model = models(AGENTS_MODEL)
            parts = replace(parts, agent=agent)
        async with self.place.store(_embedder(order)) as store:
            yield Tools(partial(_loop, self, parts, store), parts.scorer)


def _embedder(order: Order) -> Embedder:
    if order.embedder == "auto":
        return embedder_or_default(None)
    return HashingEmbedder() if order.embedder == "hashing" else default_embedder()


def _loaded(order: Order, tasks: Sequence[Task], model: ChatModel | None) -> Parts:
    return load_parts(order.parts, order.plan.arms, tasks, model, has_model=order.endpoint is not None)


def _loop(setup: TaskSetup, parts: Parts, store: VectorStore, arm: ArmName, seed: int) -> Reflexion:
    order, scope = setup.order, setup.place.scope(store, arm, seed)
    settings = recall_settings(order.min_similarity, withhold=order.withhold, early=order.early)
    return Reflexion(
        parts.agent.made(seed) if isinstance(parts.agent, Made) else parts.agent,
        model=parts.model,
        evaluator=parts.evaluator,
        reflector=parts.reflector or (None if parts.model else no_reflector),
        lesson_store=arm_lessons(arm, scope, setup.tasks, settings=settings, seed=seed),
        max_attempts=order.plan.trials,
        top_k_lessons=order.plan.k,
    )


def _config(order: Order, embedder: Embedder) -> dict[str, JSON]:
    """What a resumed run must have in common with the one that it goes on with, beside its plan and its tasks."""
    endpoint, prices = order.endpoint, order.prices
    return {
        "benchmark": "tasks",
        "agent": order.parts.agent,
        "evaluator": order.parts.evaluator,
        "scorer": order.parts.scorer,
        "reflector": order.parts.reflector,
        "model": None if endpoint is None else endpoint.model,
        "base_url": None if endpoint is None else endpoint.base_url,
        "prices": None if prices is None else [prices.input, prices.output],
        "embedder": embedder.id,
        "min_similarity": order.min_similarity,
        "withhold": order.withhold,
        "withhold_early": order.early,
    }
