"""``jeeves-reflexion learn``: learn from attempts that were made elsewhere."""

from __future__ import annotations

import anyio
import click

from jeeves_reflexion.cli import options
from jeeves_reflexion.cli.failures import Interrupted
from jeeves_reflexion.cli.lessons.library import Library, over_lessons, short, task_excerpt
from jeeves_reflexion.cli.models import ProvenModel, model_at
from jeeves_reflexion.cli.stores import open_or_make
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.loop.learner import Learner
from jeeves_reflexion.loop.transcripts import learn_transcripts, read_transcripts
from jeeves_reflexion.summary import counted
from jeeves_reflexion.types import Lesson


@click.command()
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
)
@click.option(
    "--model",
    metavar="NAME",
    required=True,
    help="The model that writes lessons, and judges attempts without a score.",
)
@click.option(
    "--threshold",
    metavar="X",
    type=options.Number(0, 1),
    default=0.8,
    help="The lowest score that passes, from 0 to 1. Attempts that passed teach nothing.",
)
@options.endpoint
@over_lessons(options.embedder, options.dry_run)
def learn(
    library: Library,
    files: tuple[str, ...],
    model: str,
    threshold: float,
    endpoint: options.Endpoint,
) -> None:
    """Learn from attempts that were made elsewhere.

    FILE holds JSON lines, {"task": ..., "output": ..., "score": 0.2, "reason": ...} or {"messages": [...], "score":
    0.2}, OpenTelemetry spans (OTLP as JSON, or as its SDK prints them), or an Inspect log. The model judges attempts
    without a score. An attempt teaches once, even if it is given again. If a file can't be read, nothing is learned.
    If FILE is "-", standard input is read.
    """
    transcripts = read_transcripts(files)
    if not transcripts:
        raise ConfigurationError(f"no attempt found in {', '.join(map(str, files))}")
    if library.dry_run:
        unscored = sum(each.evaluation is None for each in transcripts)
        planned = {"dry_run": True, "attempts": len(transcripts), "to_judge": unscored}
        library.give(planned, f"{counted(len(transcripts), 'attempt')}, {unscored} of them to be judged")
        return
    learned: list[Lesson] = []
    problems: list[str] = []
    known = 0

    async def learn_all() -> None:
        nonlocal known
        async with (
            model_at(endpoint, model) as answering,
            open_or_make(library.store_address, library.namespace, library.embedder) as store,
        ):
            learner = Learner(model=ProvenModel(answering), lesson_store=store, threshold=threshold)
            async for _, trial in learn_transcripts(learner, store, transcripts):
                if trial is None:
                    known += 1
                    continue
                problems.extend(trial.problems)
                if not trial.evaluation.scored:
                    problems.append(f"no verdict: {trial.evaluation.rationale}")
                if trial.lesson is not None:
                    learned.append(trial.lesson)

    try:
        anyio.run(learn_all)
    except KeyboardInterrupt:
        raise Interrupted(
            f"{counted(len(learned), 'lesson')} learned so far; run the command again to continue"
        ) from None
    for problem in problems:
        library.screen.note(problem)
    answer = {"attempts": len(transcripts), "learned": learned, "known": known, "problems": problems}
    rows = [{"id": short(each.id), "lesson": each.text, "task": task_excerpt(each)} for each in learned]
    attempts, lessons = counted(len(transcripts), "attempt"), counted(len(learned), "lesson")
    library.give(answer, f"{attempts}: {lessons}, {known} known already", rows=rows)
