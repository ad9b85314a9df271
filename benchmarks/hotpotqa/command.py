"""The command ``jeeves-reflexion bench hotpotqa``."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import click

from jeeves_reflexion import ConfigurationError, OpenAIModel
from jeeves_reflexion.cli.bench_options import (
    check_executor,
    executor_options,
    folder_options,
    holdout_option,
    plan_options,
    recall_options,
    spending_options,
    track_option,
    tracked,
)
from jeeves_reflexion.cli.options import embedder
from jeeves_reflexion.experiments import ARMS, PlainProgress, estimate, recall_settings
from jeeves_reflexion.experiments.location import run_location
from jeeves_reflexion.summary import counted

from ..options import (
    arms_option,
    embedder_called,
    endpoint_options,
    expected_of,
    key_option,
    named_model,
    plan_of,
    prices_of,
    run_folder,
)
from ..report import write_result
from .environment import CONTEXT_LIMIT, STEP_LIMIT
from .evaluators import JudgeName
from .experiment import Finished, Setting, less, run, spent
from .questions import load_questions
from .report import figures, page, summary

_ARMS_HELP = "; ".join(f"{name}: {what}" for name, what in ARMS.items())


def _judges(_: click.Context, __: click.Parameter, value: str) -> tuple[JudgeName, ...]:
    found: list[JudgeName] = []
    for part in value.split(","):
        match part.strip():
            case "oracle":
                found.append("oracle")
            case "self":
                found.append("self")
            case other:
                raise click.BadParameter(f"{other!r}: a judge is oracle or self")
    if len(set(found)) != len(found):
        raise click.BadParameter("name each judge once")
    return tuple(found)


@click.command("hotpotqa", epilog=f"Arms: {_ARMS_HELP}.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    required=True,
    help="An official HotpotQA file (JSON), or JSON lines with the same fields.",
)
@click.option("--limit", type=click.IntRange(min=1), help="The first so many questions; by default all.")
@click.option(
    "--agent", type=click.Choice(["react", "cot"]), default="react", show_default=True, help="How it answers."
)
@click.option(
    "--pages",
    type=click.Choice(["question", "bm25"]),
    default="question",
    show_default=True,
    help="What is searched: the question's paragraphs, or an index of all.",
)
@click.option(
    "--context",
    type=click.Choice(["none", "all", "supporting"]),
    default="all",
    show_default=True,
    help="For cot: the paragraphs in the prompt; the paper's are the supporting ones.",
)
@click.option(
    "--judges",
    callback=_judges,
    default="oracle",
    show_default=True,
    help="oracle (the gold answer), self (a judge without it), or both by commas: each is a run of its own.",
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
    help="Tokens of a prompt.",
)
@endpoint_options
@folder_options
@track_option
@click.option(
    "--page", type=click.Path(path_type=Path), help="A folder for the results page, hotpotqa.md and .json."
)
@spending_options
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def hotpotqa(**options: Any) -> None:  # noqa: ANN401 - click hands over what the decorators declare
    """Questions that need two pages of Wikipedia, with memory and without."""
    setting = _setting(options)
    _say_estimate(setting, options)
    track = tracked(options["track"], "hotpotqa")
    runs = anyio.run(_run, setting, options["judges"])
    for finished in runs:
        for folder, results in finished.seeds.items():
            track(results, folder)
    found = {"command": _command(), "runs": [figures(finished) for finished in runs]}
    if options["page"]:
        write_result(options["page"], "hotpotqa", found, page(runs, _command()))
    if options["as_json"]:
        click.echo(json.dumps(found, indent=2))
    else:
        for finished in runs:
            click.echo("\n" + summary(finished))
        click.echo(f"\nRun: {setting.out}")
    if len(runs) < len(options["judges"]) or any(finished.interrupted for finished in runs):
        click.get_current_context().exit(1)


def _say_estimate(setting: Setting, options: dict[str, Any]) -> None:
    tasks = [question.task for question in setting.questions]
    before = estimate(setting.plan, tasks, expected_of(options), prices_of(options))
    click.echo(f"{counted(len(tasks), 'question')}, for each judge: {before}", err=True)


async def _run(setting: Setting, judges: tuple[JudgeName, ...]) -> list[Finished]:
    try:
        runs: list[Finished] = []
        for judge in judges:
            left = less(setting, sum(spent(finished.costs) for finished in runs))
            if left is None or (runs and runs[-1].interrupted):
                click.echo(f"judged by {judge}: not begun, go on with --resume", err=True)
                break
            this = replace(left, judge=judge, out=setting.out / judge)
            runs.append(await run(this, watcher=PlainProgress()))
        return runs
    finally:
        if isinstance(setting.model, OpenAIModel):
            await setting.model.aclose()


def _setting(options: dict[str, Any]) -> Setting:
    check_executor(options)
    questions = load_questions(options["data"])[: options["limit"]]
    model = named_model(options)
    if model is None:
        raise ConfigurationError("nobody answers the questions: name a --model")
    return Setting(
        questions=tuple(questions),
        plan=plan_of(options),
        out=run_folder(options, "hotpotqa"),
        embedder=embedder_called(options["embedder"]),
        agent=options["agent"],
        pages=options["pages"],
        context=options["context"],
        model=model,
        resume=options["resume"],
        step_limit=options["step_limit"],
        context_limit=options["context_limit"],
        settings=recall_settings(
            options["min_similarity"],
            withhold=options["withhold"],
            key=options["key"],
            order=options["order"],
        ),
        runs_on=run_location(options),
    )


def _command() -> str:
    """The options as they were given, without the places of this machine."""
    words = iter(sys.argv[1:])
    shown = ["jeeves-reflexion"]
    for word in words:
        option, joined, _ = word.partition("=")
        if option in {"--out", "--page", "--lessons", "--ray-address", "--ray-working-dir"}:
            if not joined:
                next(words, None)
        elif word not in {"--resume", "--json"}:
            shown.append(Path(word).name if word.startswith(("/", ".", "~")) else word)
    return " ".join(shown)
