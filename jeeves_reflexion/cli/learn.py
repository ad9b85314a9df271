"""``jeeves-reflexion learn``: learn from attempts that were made elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio
import click

from jeeves_reflexion.cli import options
from jeeves_reflexion.cli.failures import Interrupted
from jeeves_reflexion.cli.lessons.library import Library, over_lessons, short, task_excerpt
from jeeves_reflexion.cli.models import ProvenModel, model_at
from jeeves_reflexion.cli.stores import open_or_make
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.loop.learner import Learner
from jeeves_reflexion.loop.transcripts import Transcript, learn_transcripts, read_transcripts
from jeeves_reflexion.summary import counted
from jeeves_reflexion.types import Lesson, Trial


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
    done = _Learned()
    try:
        anyio.run(_learn, done, library, transcripts, model, threshold, endpoint)
    except KeyboardInterrupt:
        raise Interrupted(
            f"{counted(len(done.lessons), 'lesson')} learned so far; run the command again to continue"
        ) from None
    for problem in done.problems:
        library.screen.note(problem)
    answer: dict[str, object] = {
        "attempts": len(transcripts),
        "learned": done.lessons,
        "known": done.known,
        "problems": done.problems,
    }
    rows = [{"id": short(each.id), "lesson": each.text, "task": task_excerpt(each)} for each in done.lessons]
    attempts, lessons = counted(len(transcripts), "attempt"), counted(len(done.lessons), "lesson")
    library.give(answer, f"{attempts}: {lessons}, {done.known} known already", rows=rows)


@dataclass(slots=True)
class _Learned:
    """The results so far."""

    lessons: list[Lesson] = field(default_factory=list)
    known: int = 0
    problems: list[str] = field(default_factory=list)


async def _learn(
    done: _Learned,
    library: Library,
    transcripts: list[Transcript],
    model: str,
    threshold: float,
    endpoint: options.Endpoint,
) -> None:
    async with (
        model_at(endpoint, model) as answering,
        open_or_make(library.store_address, library.namespace, library.embedder) as store,
    ):
        learner = Learner(model=ProvenModel(answering), lesson_store=store, threshold=threshold)
        async for _, trial in learn_transcripts(learner, store, transcripts):
            done.known += trial is None
            if trial is not None:
                done.problems += _problems(trial)
                done.lessons += [trial.lesson] if trial.lesson is not None else []


def _problems(trial: Trial) -> list[str]:
    unjudged = [] if trial.evaluation.scored else [f"no verdict: {trial.evaluation.rationale}"]
    return [*trial.problems, *unjudged]
