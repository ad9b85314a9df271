"""The command ``jeeves-reflexion bench hotpotqa``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from jeeves_reflexion.cli.bench_options import (
    executor_options,
    folder_options,
    holdout_option,
    plan_options,
    recall_options,
    spending_options,
    track_option,
)
from jeeves_reflexion.cli.options import embedder
from jeeves_reflexion.experiments import PlainProgress

from ..options import (
    ARMS_HELP,
    arms_option,
    endpoint_options,
    key_option,
    required_model,
    run_command,
    setting_of,
)
from .environment import CONTEXT_LIMIT, STEP_LIMIT
from .experiment import Setting, run
from .questions import load_questions
from .report import f1_figures, summary


@click.command("hotpotqa", epilog=ARMS_HELP)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    required=True,
    help="An official HotpotQA file (JSON), or JSON lines with the same fields.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Only the first N questions.")
@click.option(
    "--judge",
    type=click.Choice(["oracle", "self"]),
    default="oracle",
    show_default=True,
    help="What decides whether an answer is right: the gold answer, or the model without it.",
)
@arms_option("retry,own,selective,irrelevant")
@plan_options("question", k=5, workers=2)
@executor_options
@holdout_option("question")
@key_option
@recall_options
@embedder
@click.option("--step-limit", type=click.IntRange(min=2), default=STEP_LIMIT, show_default=True)
@click.option(
    "--context-limit",
    type=click.IntRange(min=1),
    default=CONTEXT_LIMIT,
    show_default=True,
    help="The most tokens of a prompt.",
)
@endpoint_options
@folder_options
@track_option
@spending_options
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def hotpotqa(**options: Any) -> None:  # noqa: ANN401 - click hands over what the decorators declare
    """Questions that need two pages of Wikipedia, with memory and without."""
    setting = Setting(
        **setting_of(options, "hotpotqa", judged_by=options["judge"]),
        questions=tuple(load_questions(options["data"])[: options["limit"]]),
        model=required_model(options, "nobody answers the questions"),
        step_limit=options["step_limit"],
        context_limit=options["context_limit"],
    )
    go = partial(run, setting, say=partial(click.echo, err=True), watcher=PlainProgress())
    run_command(options, "hotpotqa", setting, go, (summary, f1_figures))
