"""One run of the benchmark: questions, an agent, pages to search, a judge, arms, trials, seeds."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from jeeves_reflexion import ChatModel, Judge, LessonReflector, LoopOptions, Reflexion
from jeeves_reflexion.experiments import ArmName, Results, Watcher, arm_lessons, arm_of, withholding_json
from jeeves_reflexion.experiments.arms import order_json
from jeeves_reflexion.experiments.executors import Tools
from jeeves_reflexion.experiments.location import LessonLocation
from vectorstores import JSON, VectorStore

from ..runs import RunSetting, play
from .agent import ReActAgent
from .environment import CONTEXT_LIMIT, STEP_LIMIT
from .questions import Question, paragraphs_of
from .scorer import ExactMatch, SelfJudge


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(RunSetting):
    """The setting of one run.

    ``plan.judged_by`` is ``"oracle"``, the gold answer, or ``"self"``, the model without it. With ``"self"``, EM and F1
    are measured too.
    """

    questions: tuple[Question, ...]
    model: ChatModel
    step_limit: int = STEP_LIMIT
    context_limit: int = CONTEXT_LIMIT


async def run(setting: Setting, *, say: Callable[[str], None], watcher: Watcher | None = None) -> Results:
    """Play the learning questions trial by trial, then the held-out ones once with the lessons."""
    tasks = [question.task for question in setting.questions]
    title = f"HotpotQA, {setting.model.name}"
    return await play(setting, tasks, config(setting), _open_tools, title=title, say=say, watcher=watcher)


@contextlib.asynccontextmanager
async def _open_tools(setting: Setting, place: LessonLocation, store: VectorStore) -> AsyncIterator[Tools]:
    model, tasks = setting.model, [question.task for question in setting.questions]
    limits = {"step_limit": setting.step_limit, "context_limit": setting.context_limit}
    agent = ReActAgent(model, paragraphs_of(setting.questions), **limits)
    oracle, judged_by_gold = ExactMatch(), setting.plan.judged_by == "oracle"

    def loop(arm: ArmName, seed: int) -> Reflexion:
        """Return the loop of one arm; the arms differ only in how they remember."""
        scope = place.scope(store, arm, seed)
        return Reflexion(
            agent,
            evaluator=oracle if judged_by_gold else SelfJudge(Judge(model)),
            reflector=LessonReflector(model),
            lesson_store=arm_lessons(arm, scope, tasks, settings=setting.settings, seed=seed),
            max_attempts=setting.plan.trials,
            top_k_lessons=setting.plan.k,
            options=LoopOptions(learn=arm_of(arm).learns),
        )

    yield Tools(loop, None if judged_by_gold else oracle)


def config(setting: Setting) -> dict[str, JSON]:
    """Return what must be the same when a run is resumed."""
    plan = setting.plan
    return {
        "benchmark": "hotpotqa",
        "model": setting.model.name,
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
