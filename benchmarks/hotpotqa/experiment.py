"""One run of the benchmark: questions, an agent, pages to search, who judges, arms, trials, seeds."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import anyio.to_thread

from jeeves_reflexion import (
    Agent,
    ChatModel,
    LessonReflector,
    LessonSettings,
    LoopOptions,
    Reflexion,
)
from jeeves_reflexion.experiments import (
    ArmName,
    Cost,
    Plan,
    Results,
    RunLog,
    Watcher,
    arm_lessons,
    arm_of,
    withholding_json,
)
from jeeves_reflexion.experiments.arms import order_json
from jeeves_reflexion.experiments.executors import Tools
from jeeves_reflexion.experiments.location import LessonLocation, RunLocation
from vectorstores import JSON, Embedder, VectorStore

from ..report import write_run_report
from ..runs import play
from .environment import CONTEXT_LIMIT, STEP_LIMIT
from .evaluators import JudgeName, evaluator
from .model_agents import CotAgent, ReActAgent
from .outcomes import Outcome, outcomes_of
from .pages import PagesFor, WordPages, all_pages, own_pages, shared_pages
from .questions import Question, paragraphs_of
from .scorer import ExactMatch

AgentName: TypeAlias = Literal["react", "cot"]
PagesName: TypeAlias = Literal["question", "bm25"]
ContextName: TypeAlias = Literal["none", "all", "supporting"]

NAMESPACE = "hotpotqa"
CONTROL: ArmName = "retry"
"""The arm that the others are held against."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What one run plays, and with what.

    The plan's ``holdout`` is the share of the questions that no lesson is learned from; they are drawn anew for each
    seed, so that several seeds see more of the questions held out. ``context`` is for chain of thought: no
    paragraphs, all of the question's, or the supporting ones as in the paper. ``resume`` goes on with the run in
    ``out``.
    ``runs_on`` says where the attempts are made.
    """

    questions: tuple[Question, ...]
    plan: Plan
    out: Path
    embedder: Embedder
    model: ChatModel
    judge: JudgeName = "oracle"
    agent: AgentName = "react"
    pages: PagesName = "question"
    context: ContextName = "all"
    step_limit: int = STEP_LIMIT
    context_limit: int = CONTEXT_LIMIT
    resume: bool = False
    settings: LessonSettings = field(default_factory=LessonSettings)
    runs_on: RunLocation = field(default_factory=RunLocation)

    def __post_init__(self) -> None:
        self.runs_on.check(self.plan.arms)

    @property
    def gold(self) -> dict[str, str]:
        """The answers, for evaluators and tables alone."""
        return {question.id: question.answer for question in self.questions}


@dataclass(frozen=True, slots=True)
class Finished:
    """What a run leaves: every attempt scored, the results and folder of each seed, and where its lessons are."""

    setting: Setting
    outcomes: list[Outcome]
    lessons_at: Path
    lessons: list[str]
    interrupted: str = ""
    costs: Mapping[ArmName, Cost] = field(default_factory=dict)
    seeds: Mapping[Path, Results] = field(default_factory=dict)


def spent(costs: Mapping[ArmName, Cost]) -> float:
    """Return what arms cost in US dollars; calls of unknown price count nothing, and a limit refuses them."""
    return sum(cost.usage.cost_usd or 0.0 for cost in costs.values())


def less(setting: Setting, usd: float) -> Setting | None:
    """Return a setting whose spending limit is so much lower; None where nothing is left of it."""
    limit = setting.plan.max_cost_usd
    if limit is None or not usd:
        return setting
    return replace(setting, plan=replace(setting.plan, max_cost_usd=limit - usd)) if usd < limit else None


async def run(setting: Setting, *, watcher: Watcher | None = None) -> Finished:
    """Play every seed: its learning questions trial by trial, then its held-out ones once with what was learned."""
    outcomes: list[Outcome] = []
    lessons: dict[str, None] = {}
    costs: dict[ArmName, Cost] = {}
    seeds: dict[Path, Results] = {}
    interrupted = ""
    for seed in setting.plan.seeds:
        left = less(setting, spent(costs))
        if left is None:
            interrupted = f"the spending limit is reached before seed {seed}"
            break
        folder = setting.out / f"seed-{seed}"
        results = seeds[folder] = await _seed(left, seed, folder, watcher)
        outcomes += outcomes_of(results.rows, setting.gold)
        for arm in results.arms:
            lessons.update(dict.fromkeys(results.lessons(arm)))
            costs[arm] = costs[arm] + results.cost(arm) if arm in costs else results.cost(arm)
        interrupted = results.interrupted
        if interrupted:
            break
    lines = "".join(json.dumps(row.as_json(), ensure_ascii=False) + "\n" for row in outcomes)
    write = partial((setting.out / "outcomes.jsonl").write_text, lines, encoding="utf-8")
    await anyio.to_thread.run_sync(write)
    return Finished(setting, outcomes, setting.out / "lessons", list(lessons), interrupted, costs, seeds)


async def _seed(setting: Setting, seed: int, folder: Path, watcher: Watcher | None) -> Results:
    """One seed of a run: its split of the questions, and its folder, which it can be resumed from."""
    plan = replace(setting.plan, seeds=(seed,), split_seed=seed, judged_by=setting.judge)
    log = RunLog(folder)
    await log.open(config(setting), resume=setting.resume)
    tasks = [question.task for question in setting.questions]
    results = await play(setting, plan, tasks, log, _open_tools, namespace=NAMESPACE, watcher=watcher)
    title = f"HotpotQA, {setting.agent}, seed {seed}, judged by {setting.judge}"
    await write_run_report(results, log.folder, title=title)
    return results


@contextlib.asynccontextmanager
async def _open_tools(setting: Setting, place: LessonLocation, store: VectorStore) -> AsyncIterator[Tools]:
    model, tasks = setting.model, [question.task for question in setting.questions]

    def loop(arm: ArmName, seed: int) -> Reflexion:
        """The loop of one arm: all arms share everything but how they remember."""
        scope = place.scope(store, arm, seed)
        return Reflexion(
            _agent(setting, pages),
            evaluator=evaluator(setting.judge, model),
            reflector=LessonReflector(model),
            lesson_store=arm_lessons(arm, scope, tasks, settings=setting.settings, seed=seed),
            max_attempts=setting.plan.trials,
            top_k_lessons=setting.plan.k,
            options=LoopOptions(learn=arm_of(arm).learns),
        )

    # An index is made before the first attempt.
    pages = await anyio.to_thread.run_sync(_pages, setting)
    yield Tools(loop, ExactMatch())


def _pages(setting: Setting) -> PagesFor:
    paragraphs = paragraphs_of(setting.questions)
    return (
        own_pages(paragraphs)
        if setting.pages == "question"
        else shared_pages(WordPages(all_pages(paragraphs)))
    )


def _agent(setting: Setting, pages: PagesFor) -> Agent:
    model = setting.model
    if setting.agent == "react":
        return ReActAgent(model, pages, step_limit=setting.step_limit, context_limit=setting.context_limit)
    supporting = setting.context == "supporting"
    paragraphs = (
        paragraphs_of(setting.questions, supporting=supporting) if setting.context != "none" else None
    )
    return CotAgent(model, paragraphs, context_limit=setting.context_limit)


def config(setting: Setting) -> dict[str, JSON]:
    """Return what a run is, as its log keeps it."""
    plan = setting.plan
    return {
        "benchmark": "hotpotqa",
        "agent": setting.agent,
        "model": setting.model.name,
        "pages": setting.pages if setting.agent != "cot" else None,
        "context": setting.context if setting.agent == "cot" else None,
        "judged_by": setting.judge,
        "arms": list(plan.arms),
        "trials": plan.trials,
        "seeds": list(plan.seeds),
        "workers": plan.workers,
        "k": plan.k,
        "holdout": plan.holdout,
        "step_limit": setting.step_limit,
        "context_limit": setting.context_limit,
        "embedder": setting.embedder.id,
        "key": setting.settings.key,
        "min_similarity": setting.settings.min_similarity,
        **withholding_json(setting.settings),
        **order_json(setting.settings.order),
    }
