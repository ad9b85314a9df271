"""``jeeves-reflexion learn``: lessons from attempts that were made elsewhere."""

from __future__ import annotations

from pathlib import Path

import anyio
import click

from jeeves_reflexion.cli.connections import ProvenModel, model_at, open_or_make
from jeeves_reflexion.cli.lessons.library import Library, over_lessons, short, task_excerpt
from jeeves_reflexion.cli.options import (
    EmbedderChoice,
    Endpoint,
    dry_run_option,
    embedder_option,
    endpoint_options,
)
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
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option("--model", metavar="NAME", required=True, help="Writes lessons, and judges what has no score.")
@click.option(
    "--threshold",
    metavar="X",
    type=click.FloatRange(0, 1),
    default=0.8,
    help="The score from 0 to 1 that passes; what passed teaches nothing.",
)
@embedder_option
@endpoint_options
@over_lessons(dry_run_option)
def learn(
    library: Library,
    files: tuple[Path, ...],
    model: str,
    threshold: float,
    embedder: EmbedderChoice,
    endpoint: Endpoint,
) -> None:
    """Learn from attempts that were made elsewhere, in files of JSON lines.

    A line is {"task": ..., "output": ..., "score": 0.2, "reason": ...} or {"messages": [...], "score": 0.2}; a line
    without a score is judged. Each attempt is learned from once, however often it is given. A line that can't be
    read stops the command before anything is learned.
    """
    transcripts = read_transcripts(files)
    if not transcripts:
        raise ConfigurationError(f"there is no attempt in {', '.join(map(str, files))}")
    if library.dry_run:
        unscored = sum(each.evaluation is None for each in transcripts)
        planned = {"dry_run": True, "attempts": len(transcripts), "to_judge": unscored}
        library.give(planned, f"{counted(len(transcripts), 'attempt')}, {unscored} of them to be judged")
        return
    learned, known, problems = anyio.run(_learn, library, transcripts, model, threshold, embedder, endpoint)
    for problem in problems:
        library.screen.note(problem)
    answer: dict[str, object] = {
        "attempts": len(transcripts),
        "learned": learned,
        "known": known,
        "problems": problems,
    }
    rows = [{"id": short(each.id), "lesson": each.text, "task": task_excerpt(each)} for each in learned]
    said = f"{counted(len(transcripts), 'attempt')}: {counted(len(learned), 'lesson')}, {known} known already"
    library.give(answer, said, rows=rows)


async def _learn(
    library: Library,
    transcripts: list[Transcript],
    model: str,
    threshold: float,
    embedder: EmbedderChoice,
    endpoint: Endpoint,
) -> tuple[list[Lesson], int, list[str]]:
    learned, known, problems = list[Lesson](), 0, list[str]()
    async with (
        model_at(endpoint, model) as answering,
        open_or_make(library.store_address, library.namespace, embedder) as store,
    ):
        learner = Learner(model=ProvenModel(answering), lesson_store=store, threshold=threshold)
        async for _, trial in learn_transcripts(learner, store, transcripts):
            known += trial is None
            if trial is not None:
                problems += _problems(trial)
                learned += [trial.lesson] if trial.lesson is not None else []
    return learned, known, problems


def _problems(trial: Trial) -> list[str]:
    unjudged = [] if trial.evaluation.scored else [f"no verdict: {trial.evaluation.rationale}"]
    return [*trial.problems, *unjudged]
