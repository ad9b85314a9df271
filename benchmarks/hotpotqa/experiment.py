"""One run of the benchmark: questions, an agent, pages to search, who judges, arms, trials, seeds."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import anyio.to_thread

from jeeves_reflexion import Agent, ChatModel, Judge, LessonReflector, LoopOptions, Reflexion
from jeeves_reflexion.experiments import ArmName, Results, Watcher, arm_lessons, arm_of, withholding_json
from jeeves_reflexion.experiments.arms import order_json
from jeeves_reflexion.experiments.executors import Tools
from jeeves_reflexion.experiments.location import LessonLocation
from vectorstores import JSON, VectorStore

from ..runs import RunSetting, play
from .environment import CONTEXT_LIMIT, STEP_LIMIT
from .model_agents import CotAgent, ReActAgent
from .pages import PagesFor, WordPages, all_pages, own_pages, shared_pages
from .questions import Question, paragraphs_of
from .scorer import ExactMatch, SelfJudge

AgentName: TypeAlias = Literal["react", "cot"]
PagesName: TypeAlias = Literal["question", "bm25"]
ContextName: TypeAlias = Literal["none", "all", "supporting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(RunSetting):
    """What one run plays, and with what.

    ``plan.judged_by`` says who is believed: ``"oracle"``, the gold answer, or ``"self"``, the model without it; then
    EM and F1 are measured beside it. ``context`` is for chain of thought: no paragraphs, all of the question's, or the
    supporting ones as in the paper.
    """

    questions: tuple[Question, ...]
    model: ChatModel
    agent: AgentName = "react"
    pages: PagesName = "question"
    context: ContextName = "all"
    step_limit: int = STEP_LIMIT
    context_limit: int = CONTEXT_LIMIT


async def run(setting: Setting, *, say: Callable[[str], None], watcher: Watcher | None = None) -> Results:
    """Play the learning questions trial by trial, then the held-out ones once with what was learned."""
    tasks = [question.task for question in setting.questions]
    title = f"HotpotQA, {setting.agent} with {setting.model.name}"
    return await play(setting, tasks, config(setting), _open_tools, title=title, say=say, watcher=watcher)


@contextlib.asynccontextmanager
async def _open_tools(setting: Setting, place: LessonLocation, store: VectorStore) -> AsyncIterator[Tools]:
    model, tasks = setting.model, [question.task for question in setting.questions]
    oracle, judged_by_gold = ExactMatch(), setting.plan.judged_by == "oracle"

    def loop(arm: ArmName, seed: int) -> Reflexion:
        """The loop of one arm: all arms share everything but how they remember."""
        scope = place.scope(store, arm, seed)
        return Reflexion(
            _agent(setting, pages),
            evaluator=oracle if judged_by_gold else SelfJudge(Judge(model)),
            reflector=LessonReflector(model),
            lesson_store=arm_lessons(arm, scope, tasks, settings=setting.settings, seed=seed),
            max_attempts=setting.plan.trials,
            top_k_lessons=setting.plan.k,
            options=LoopOptions(learn=arm_of(arm).learns),
        )

    # An index is made before the first attempt.
    pages = await anyio.to_thread.run_sync(_pages, setting)
    yield Tools(loop, None if judged_by_gold else oracle)


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
        "judged_by": plan.judged_by,
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
