"""The command ``jeeves-reflexion bench hotpotqa``."""

from __future__ import annotations

import datetime
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import click

from benchmarks.hotpotqa.environment import CONTEXT_LIMIT, STEP_LIMIT
from benchmarks.hotpotqa.evaluators import JudgeName
from benchmarks.hotpotqa.experiment import Finished, Setting, run
from benchmarks.hotpotqa.questions import load_questions
from benchmarks.hotpotqa.report import figures, page, summary
from benchmarks.results import write_result
from jeeves_reflexion import ChatModel, ConfigurationError, LessonSettings, OpenAIModel
from jeeves_reflexion.experiments import ARMS, ArmName, Plan, arm_names, progress_for
from vectorstores import Embedder, HashingEmbedder
from vectorstores.embedders import default_embedder

_ARMS_HELP = "; ".join(f"{name}: {what}" for name, what in ARMS.items())


def _names(_: click.Context, __: click.Parameter, value: str) -> tuple[ArmName, ...]:
    return arm_names(value)


def _numbers(_: click.Context, __: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is no list of whole numbers such as 0,1,2") from None


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
    "--agent",
    type=click.Choice(["extractive", "react", "cot"]),
    help="extractive needs no model; react and cot do. By default extractive, with --model react.",
)
@click.option(
    "--pages",
    type=click.Choice(["question", "bm25", "dense", "wikipedia"]),
    default="question",
    show_default=True,
    help="What is searched: the question's paragraphs, an index of all, or Wikipedia.",
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
@click.option(
    "--arms",
    callback=_names,
    default="retry,own,selective,irrelevant",
    show_default=True,
    help="Arms, by commas; the first trial of retry is one attempt without memory.",
)
@click.option(
    "--trials", type=click.IntRange(min=1), default=4, show_default=True, help="Attempts per question."
)
@click.option("--seeds", callback=_numbers, default="0", show_default=True, help="Seeds, by commas.")
@click.option(
    "--holdout",
    type=click.FloatRange(min=0.0, max=1.0, max_open=True),
    default=0.0,
    show_default=True,
    help="Share of the questions that no lesson is learned from.",
)
@click.option(
    "--workers", type=click.IntRange(min=1), default=2, show_default=True, help="Questions at a time."
)
@click.option(
    "-k", "k", type=click.IntRange(min=1), default=5, show_default=True, help="Lessons recalled per attempt."
)
@click.option(
    "--key",
    type=click.Choice(["task", "lesson", "both"]),
    default="task",
    show_default=True,
    help="What a lesson is found by.",
)
@click.option(
    "--min-similarity", type=float, default=0.3, show_default=True, help="Floor of recall, a cosine."
)
@click.option("--embedder", type=click.Choice(["minilm", "hashing"]), default="minilm", show_default=True)
@click.option("--step-limit", type=click.IntRange(min=2), default=STEP_LIMIT, show_default=True)
@click.option(
    "--context-limit",
    type=click.IntRange(min=1),
    default=CONTEXT_LIMIT,
    show_default=True,
    help="Tokens of a prompt.",
)
@click.option("--model", help="A language model, by its name at an OpenAI-compatible endpoint.")
@click.option("--base-url", help="That endpoint; by default OPENAI_BASE_URL.")
@click.option(
    "--wikipedia-cache",
    type=click.Path(path_type=Path),
    default=Path("runs/wikipedia"),
    show_default=True,
    help="Where answers of Wikipedia are kept.",
)
@click.option("--contact", default="", help="How Wikipedia can reach you, for the user agent: an address.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="The run's folder; by default a new one below runs/."
)
@click.option(
    "--page", type=click.Path(path_type=Path), help="A folder for the results page, hotpotqa.md and .json."
)
@click.option("--resume", is_flag=True, help="Go on with the run in --out.")
@click.option("--max-cost", type=float, help="Spending limit of each seed and judge, in USD.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def hotpotqa(**options: Any) -> None:  # noqa: ANN401 - click hands over what the decorators declare
    """Questions that need two pages of Wikipedia, with memory and without.

    Without --model a rule-based agent answers: it needs no model, and learns by reading recalled lessons.
    """
    setting = _setting(options)
    runs = anyio.run(_run, setting, options["judges"])
    found = {"command": _command(), "runs": [figures(finished) for finished in runs]}
    if options["page"]:
        write_result(options["page"], "hotpotqa", found, page(runs, _command()))
    if options["as_json"]:
        click.echo(json.dumps(found, indent=2))
        return
    for finished in runs:
        click.echo("\n" + summary(finished))
    click.echo(f"\nRun: {setting.out}")


async def _run(setting: Setting, judges: tuple[JudgeName, ...]) -> list[Finished]:
    try:
        return [
            await run(
                replace(setting, judge=judge, out=setting.out / judge),
                watcher=progress_for(sys.stderr),
            )
            for judge in judges
        ]
    finally:
        if isinstance(setting.model, OpenAIModel):
            await setting.model.aclose()


def _setting(options: dict[str, Any]) -> Setting:
    model: ChatModel | None = None
    if options["model"]:
        model = OpenAIModel(options["model"], base_url=options["base_url"])
    elif options["base_url"]:
        raise ConfigurationError("--base-url goes with --model")
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    questions = load_questions(options["data"])[: options["limit"]]
    return Setting(
        questions=tuple(questions),
        plan=Plan(
            options["arms"],
            options["trials"],
            options["seeds"],
            options["workers"],
            options["k"],
            holdout=options["holdout"],
            max_cost_usd=options["max_cost"],
        ),
        out=options["out"] or Path("runs") / f"hotpotqa-{stamp}",
        embedder=_embedder(options["embedder"]),
        agent=options["agent"] or ("react" if model else "extractive"),
        pages=options["pages"],
        context=options["context"],
        model=model,
        resume=options["resume"],
        step_limit=options["step_limit"],
        context_limit=options["context_limit"],
        cache=options["wikipedia_cache"],
        contact=options["contact"],
        settings=LessonSettings(key=options["key"], min_similarity=options["min_similarity"]),
    )


def _embedder(name: str) -> Embedder:
    return HashingEmbedder() if name == "hashing" else default_embedder()


def _command() -> str:
    """The options as they were given, without the places of this machine."""
    words = iter(sys.argv[1:])
    shown = ["jeeves-reflexion"]
    for word in words:
        if word in {"--out", "--page"}:
            next(words, None)
        elif word not in {"--resume", "--json"}:
            shown.append(Path(word).name if word.startswith(("/", ".", "~")) else word)
    return " ".join(shown)
