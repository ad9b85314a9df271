"""``jeeves-reflexion bench my_tasks.jsonl``: what it does."""

from __future__ import annotations

import datetime
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import anyio
import click

from jeeves_reflexion.cli.bench_parts import Made, Named, Parts, load_parts, no_reflector, with_recording
from jeeves_reflexion.cli.failures import Interrupted
from jeeves_reflexion.errors import ModelAuthError
from jeeves_reflexion.experiments import (
    ArmName,
    Expected,
    JudgedBy,
    Plan,
    Results,
    RunLog,
    arm_lessons,
    arm_names,
    estimate,
    figures,
    progress_for,
    read_tasks,
    run_experiment,
)
from jeeves_reflexion.experiments.reporting import write_report
from jeeves_reflexion.lessons import LessonSettings
from jeeves_reflexion.models import OpenAIModel, Prices
from jeeves_reflexion.protocols import ChatModel
from jeeves_reflexion.reflexion import Reflexion
from jeeves_reflexion.types import JSON, Task
from vectorstores import Embedder, FaissVectorStore, HashingEmbedder, VectorStore
from vectorstores.embedders import default_embedder

NAMESPACE: Final = "bench"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Which model is asked, and where; ``timeout`` is in seconds."""

    model: str | None
    base_url: str | None
    api_key_env: str | None
    timeout: float
    prices: Prices | None


@dataclass(frozen=True, slots=True)
class Order:
    """What the command line asks for."""

    tasks: Path
    parts: Named
    endpoint: Endpoint
    plan: Plan
    out: Path
    resume: bool
    dry_run: bool
    expected: Expected | None
    embedder: str
    min_similarity: float


def order_of(options: Mapping[str, Any]) -> Order:
    """Return what the options ask for; raises ``click.UsageError`` for what can't go together."""
    if options["resume"] and options["out"] is None:
        raise click.UsageError("--resume goes with --out, the folder of the run")
    if (options["price_in"] is None) != (options["price_out"] is None):
        raise click.UsageError("--price-in and --price-out go together")
    if options["judged_by"] == "oracle" and options["evaluator"] == "judge":
        raise click.UsageError("--evaluator judge sees no gold answer: what it judges is self-judged")
    if options["scorer"] == "judge":
        raise click.UsageError("--scorer needs the gold answer: exact, or MODULE:NAME")
    judged: JudgedBy = options["judged_by"] or ("self" if options["evaluator"] == "judge" else "oracle")
    prices = None if options["price_in"] is None else Prices(options["price_in"], options["price_out"])
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    return Order(
        options["tasks"],
        Named(options["agent"], options["evaluator"], options["scorer"], options["reflector"]),
        Endpoint(options["model"], options["base_url"], options["api_key_env"], options["timeout"], prices),
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
        ),
        options["out"] or Path("runs") / f"{options['tasks'].stem}-{stamp}",
        options["resume"],
        options["dry_run"],
        None if options["expected_tokens"] is None else Expected(*options["expected_tokens"]),
        options["embedder"],
        options["min_similarity"],
    )


def run(order: Order, *, as_json: bool) -> int:
    """Do the run, print what came of it and return the exit code: 1 where it stopped before its end."""
    tasks = read_tasks(order.tasks)
    before = estimate(order.plan, tasks, order.expected, order.endpoint.prices)
    click.echo(f"{len(tasks)} tasks: {before}", err=True)
    if order.dry_run:
        _loaded(order, tasks, None)
        if as_json:
            click.echo(json.dumps({"tasks": len(tasks), "estimate": before.as_json()}, indent=2))
        return 0
    try:
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
        if written.not_drawn:
            click.echo(f"No pictures: {written.not_drawn}")
    return 1 if results.interrupted else 0


def summary(order: Order, results: Results) -> str:
    """Return what a person reads at the end."""
    lines = [
        f"Solved so far, by trial ({results.judged_by}-judged; 95 % Wilson interval, seeds pooled):",
        "",
        results.table(),
        "",
        *(_cost_line(results, arm) for arm in results.arms),
    ]
    if results.interrupted:
        lines += ["", f"Stopped: {results.interrupted}. Go on with --resume --out {order.out}"]
    return "\n".join([*lines, "", f"Run: {order.out}"])


def _cost_line(results: Results, arm: ArmName) -> str:
    cost = results.cost(arm)
    if not cost.usage.calls:
        return (
            f"{arm}: {cost.tries} tries, {cost.seconds:.1f} s; no call of a model was reported, cost unknown"
        )
    each = cost.per_solved(cost.usage.tokens)
    usd = "cost unknown" if cost.usage.cost_usd is None else f"{cost.usage.cost_usd:.4f} USD"
    per_solved = (
        ""
        if each is None
        else f", {each:.0f} tokens and {cost.per_solved(cost.seconds):.2f} s per solved task"
    )
    return f"{arm}: {cost.tries} tries, {cost.usage.tokens} tokens, {usd}, {cost.seconds:.1f} s{per_solved}"


async def _run(order: Order, tasks: list[Task]) -> Results:
    log = RunLog(order.out)
    embedder: Embedder = HashingEmbedder() if order.embedder == "hashing" else default_embedder()
    async with AsyncExitStack() as open_things:
        model: ChatModel | None = None
        if order.endpoint.model is not None:
            model = await open_things.enter_async_context(_open_model(order.endpoint))
        parts = _loaded(order, tasks, model)
        await log.open(_config(order, embedder), resume=order.resume)
        open_things.callback(log.close)
        if model is not None:
            parts = _loaded(order, tasks, await log.recorded(model))
        parts = replace(parts, agent=await with_recording(parts.agent, log))
        store = await open_things.enter_async_context(
            FaissVectorStore(order.out / "lessons", embedder=embedder, namespace=NAMESPACE)
        )
        return await run_experiment(
            order.plan,
            tasks,
            partial(_loop, order, parts, store, tasks),
            log=log,
            watcher=progress_for(sys.stderr),
            scorer=parts.scorer,
            on_stop="wait",
        )


def _loaded(order: Order, tasks: Sequence[Task], model: ChatModel | None) -> Parts:
    has_model = order.endpoint.model is not None
    return load_parts(order.parts, order.plan.arms, tasks, model, has_model=has_model)


def _loop(
    order: Order, parts: Parts, store: VectorStore, tasks: Sequence[Task], arm: ArmName, seed: int
) -> Reflexion:
    settings = LessonSettings(min_similarity=order.min_similarity)
    return Reflexion(
        parts.agent.made(seed) if isinstance(parts.agent, Made) else parts.agent,
        model=parts.model,
        evaluator=parts.evaluator,
        reflector=parts.reflector or (None if parts.model else no_reflector),
        lesson_store=arm_lessons(arm, store.scoped(f"{arm}-{seed}"), tasks, settings=settings, seed=seed),
        max_attempts=order.plan.trials,
        top_k_lessons=order.plan.k,
    )


def _open_model(endpoint: Endpoint) -> OpenAIModel:
    key: str | None = None
    if endpoint.api_key_env is not None:
        key = os.environ.get(endpoint.api_key_env, "").strip()
        if not key:
            raise ModelAuthError(
                f"no key: the environment variable {endpoint.api_key_env} is not set, or empty"
            )
    return OpenAIModel(
        cast("str", endpoint.model),
        base_url=endpoint.base_url,
        api_key=key,
        timeout=endpoint.timeout,
        prices=endpoint.prices,
    )


def _config(order: Order, embedder: Embedder) -> dict[str, JSON]:
    """What a resumed run must have in common with the one that it goes on with, beside its plan and its tasks."""
    prices = order.endpoint.prices
    return {
        "benchmark": "tasks",
        "agent": order.parts.agent,
        "evaluator": order.parts.evaluator,
        "scorer": order.parts.scorer,
        "reflector": order.parts.reflector,
        "model": order.endpoint.model,
        "base_url": order.endpoint.base_url,
        "prices": None if prices is None else [prices.input, prices.output],
        "embedder": embedder.id,
        "min_similarity": order.min_similarity,
    }
