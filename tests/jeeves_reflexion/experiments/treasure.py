"""The rooms of ``resuming``, sought on Ray: a setup for worker processes, and a program that can be killed.

``python treasure.py FOLDER DSN [--ray ADDRESS] [--pause N] [--resume]``; an agent that is the N-th to begin hangs with
``--pause``. Each ``victims/N`` that is missing makes the agent that comes next after N attempts write its process there
and hang, so that the test kills it in the middle of its try.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import resuming

from jeeves_reflexion import Attempt, ConfigurationError, Evaluation, LessonSettings, Message, Reflexion
from jeeves_reflexion.evaluators import RewardEvaluator
from jeeves_reflexion.experiments import Plan, RunLog, arm_lessons, figures, run_experiment
from jeeves_reflexion.experiments.executors import Tools
from jeeves_reflexion.experiments.location import LessonLocation
from jeeves_reflexion.experiments.ray.executor import RayExecutor, RayOptions
from jeeves_reflexion.models.ask import ask
from vectorstores import HashingEmbedder

HELD = "test"


class Seeker(resuming.Seeker):
    """Asks its model twice, and may be the one to be killed after the first answer."""

    def __init__(self, arm, seed, folder, model, victims):
        super().__init__(arm, seed, folder / "agent.log", 0, model)
        self.folder, self.victims = folder, victims

    async def __call__(self, task, session):
        await ask(self.model, [Message("user", f"where in the {task.id}?")])
        begun = len(self.journal.read_text().splitlines()) if self.journal.exists() else 0
        for after in self.victims:
            if begun >= after:
                await self._wait_to_be_killed(after)
        return await super().__call__(task, session)

    async def _wait_to_be_killed(self, after):
        try:
            with (self.folder / f"victim-{after}").open("x") as file:
                file.write(f"{os.getpid()} ")
        except FileExistsError:
            return
        await anyio.sleep(600)


@dataclass(frozen=True)
class TreasureSetup:
    folder: Path
    place: LessonLocation
    victims: tuple[int, ...] = ()

    @asynccontextmanager
    async def open(self, models):
        async with self.place.store(HashingEmbedder()) as store:

            def make(arm, seed):
                lessons = arm_lessons(
                    arm,
                    self.place.scope(store, arm, seed),
                    resuming.TASKS,
                    settings=LessonSettings(min_similarity=-1.0),
                    seed=seed,
                )
                return Reflexion(
                    Seeker(arm, seed, self.folder, models("paid"), self.victims),
                    evaluator=RewardEvaluator("won"),
                    reflector=resuming.teach,
                    lesson_store=lessons,
                    max_attempts=3,
                    top_k_lessons=3,
                )

            yield Tools(make, score)


async def nobody(task, session):
    raise AssertionError("the tries are made elsewhere")


async def right(task, attempt):
    return Evaluation(1.0, passed=True, criteria_scores={"style": None} if task.id == "unread" else {})


class UnsaidError(ConfigurationError):
    """Can't say what is wrong, and can't be pickled."""

    def __init__(self):
        self.lock = threading.Lock()

    def __str__(self):
        raise ValueError("no words")


async def troubled(task, session, models):
    """Fail as the task says."""
    match task.id:
        case "misconfigured":
            raise ConfigurationError("no such setting")
        case "unsaid":
            raise UnsaidError
        case "exit":
            sys.exit(3)
        case "unsent":
            await ask(models("mine"), [Message("user", "hello")], schema={"lock": threading.Lock()})
        case "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
    return Attempt("large" * 200_000)


@dataclass(frozen=True)
class SmallSetup:
    """Tries with one of the agents above, without lessons."""

    agent: object
    folder: str = ""

    @asynccontextmanager
    async def open(self, models):
        if self.agent == "lacking":
            import nowhere_to_be_found  # noqa: F401

        async def hanging(task, session):
            try:
                await anyio.Path(self.folder, "hanging").write_text(f"{os.getpid()} ")
                await anyio.sleep(600)
            finally:
                Path(self.folder, "given up").touch()  # noqa: ASYNC240 - nothing can be awaited any more

        agent = partial(troubled, models=models) if self.agent == "troubled" else hanging
        yield Tools(lambda arm, seed: Reflexion(agent, evaluator=right, reflector=resuming.teach))


async def score(task, attempt: Attempt):
    return await RewardEvaluator("won")(task, attempt)


async def play(folder, dsn, *, workers=3, options=None, ray=True, resume=False, victims=(), max_cost=None):
    """Play the treasure hunt on Ray, or here, with its lessons in PostgreSQL; return the results and the log."""
    log = RunLog(folder / "run")
    await log.open({}, resume=resume)
    paid = await log.recorded(resuming.Paid(folder / "bill.log"))
    setup = TreasureSetup(folder, LessonLocation(HELD, folder, dsn).of(log), victims)
    plan = Plan(resuming.ARMS, 3, (0,), workers, 3, holdout=0.3, max_cost_usd=max_cost)
    async with setup.open(lambda _: paid) as tools:
        more = {"log": log, "scorer": tools.scorer}
        if not ray:
            return await run_experiment(plan, resuming.TASKS, tools.make_loop, **more), log
        async with RayExecutor(setup, workers=workers, models={"paid": paid}, options=options) as executor:
            run = run_experiment(plan, resuming.TASKS, tools.make_loop, executor=executor, **more)
            return await run, log


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("dsn")
    parser.add_argument("--ray", required=True)
    parser.add_argument("--pause", type=int, default=0)
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args()

    async def run():
        victims = (options.pause,) if options.pause else ()
        address = RayOptions(options.ray)
        results, _ = await play(
            options.folder, options.dsn, options=address, resume=options.resume, victims=victims
        )
        return figures(results)

    json.dump(anyio.run(run), sys.stdout)


if __name__ == "__main__":
    main()
