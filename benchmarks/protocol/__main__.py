"""``python -m benchmarks.protocol``: execute the protocol (``run``), or write its fixed part to a page (``freeze``)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import click

from jeeves_reflexion import ConfigurationError
from jeeves_reflexion.cli.bench_options import check_folder, check_prices, folder_options, numbers
from jeeves_reflexion.cli.options import COUNT, Number, embedder
from jeeves_reflexion.experiments import RunLog
from jeeves_reflexion.models.prices import Prices, read_prices
from jeeves_reflexion.types import JSON

from ..alfworld.command import alfworld
from ..alfworld.games import load_games
from ..hotpotqa.command import hotpotqa
from ..hotpotqa.questions import load_questions
from ..humaneval.command import humaneval
from ..humaneval.problems import load_problems
from ..options import MessageGroup, endpoint_options
from ..report import write_result
from .analysis import answers, answers_json, answers_table
from .plan import HYPOTHESES, RUNS, Benchmark, Run, design_table, estimate_table, played_table, power_table
from .prompts import digests, prompts, prompts_table

BEGIN, END = "<!-- fixed: begin -->", "<!-- fixed: end -->"

_COMMANDS: dict[Benchmark, click.Command] = {
    "humaneval": humaneval,
    "hotpotqa": hotpotqa,
    "alfworld": alfworld,
    "transfer": alfworld,
}
_PATH = click.Path(exists=True, path_type=Path)


@click.group(cls=MessageGroup)
def main() -> None:
    """The protocol for a real model: docs/protocol.md."""


@main.command("freeze")
@click.argument("page", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def freeze(page: Path) -> None:
    """Write design, hypotheses, power and the digests of the prompts into PAGE, docs/protocol.md."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    if END not in rest:
        raise click.ClickException(f"{page} has no part between {BEGIN} and {END}")
    page.write_text(f"{before}{fixed_part()}{rest.partition(END)[2]}", encoding="utf-8")


def fixed_part() -> str:
    """Return the part of the page that the code determines."""
    questions = [f"{number}. {each.family}: {each}" for number, each in enumerate(HYPOTHESES, 1)]
    parts = (BEGIN, design_table(), "\n".join(questions), power_table(), estimate_table(RUNS, None))
    return "\n\n".join([*parts, prompts_table(anyio.run(prompts)), END])


@main.command("run")
@click.option("--humaneval", type=_PATH, help="HumanEval.jsonl.gz.")
@click.option("--hotpotqa", type=_PATH, help="hotpot_dev_distractor_v1.json.")
@click.option("--alfworld", type=_PATH, help="The folder of valid_unseen, as alfworld-download writes it.")
@click.option("--transfer", type=_PATH, help="The folder of valid_seen, for transfer to other rooms.")
@endpoint_options
@click.option("--price-in", metavar="USD", type=Number(min=0), help="Per million input tokens.")
@click.option("--price-out", metavar="USD", type=Number(min=0), help="Per million output tokens.")
@click.option("--prices", type=_PATH, help="Instead, a file of prices by model, such as LiteLLM's table.")
@click.option(
    "--max-cost",
    metavar="USD",
    type=Number(min=0, min_open=True),
    help="For all runs together; needs prices.",
)
@click.option("--estimate", is_flag=True, help="Only print the most that the runs can take.")
@click.option("--yes", is_flag=True, help="Don't ask for confirmation.")
@click.option("--workers", type=COUNT, default=4, show_default=True, help="Tasks at a time.")
@click.option("--limit", type=COUNT, help="A pilot: only the first N tasks of each benchmark.")
@click.option("--trials", type=COUNT, help="A pilot: another number of trials.")
@click.option("--seeds", callback=lambda c, p, v: v and numbers(c, p, v), help="A pilot: these seeds.")
@embedder
@folder_options
@click.pass_context
def run_protocol(ctx: click.Context, /, **options: Any) -> None:  # noqa: ANN401 - click hands over what is declared
    """Play the benchmarks whose data is given, one after the other, and test the hypotheses.

    --resume continues where a run was stopped; finished parts are not played again.
    """
    check_folder(options)
    prices, runs = _prices(options), _runs(options)
    click.echo(estimate_table(runs, prices))
    if options["estimate"]:
        return
    if not options["model"] or options["out"] is None:
        raise click.UsageError("name a --model and --out, the folder of all runs")
    if options["max_cost"] and prices is None:
        raise click.UsageError("--max-cost needs prices: --price-in and --price-out, or --prices")
    if not options["yes"]:
        click.confirm("Play it?", abort=True)
    out: Path = options["out"]
    log = RunLog(out)
    anyio.run(_open, log, _config(options, runs), options["resume"])
    try:
        for run in runs:
            if not (run.done(out) or _played(run, runs, options, prices)):
                break
    finally:
        log.close()
    found = answers(out, runs)
    title = f"# The protocol with {options['model']}{'' if set(runs) <= set(RUNS) else ': a pilot'}"
    parts = (title, design_table(runs), answers_table(found), played_table(runs, out))
    page = "\n\n".join(parts) + "\n"
    write_result(out, "protocol", {"model": options["model"], "answers": answers_json(found)}, page)
    click.echo(f"\n{page}")
    if not all(run.done(out) for run in runs):
        click.echo("The protocol was stopped: continue it with --resume", err=True)
        ctx.exit(1)


async def _open(log: RunLog, config: Mapping[str, JSON], resume: bool) -> None:  # noqa: FBT001 - anyio.run has no names
    await log.open(config, resume=resume)


def _config(options: Mapping[str, Any], runs: list[Run]) -> dict[str, JSON]:
    """Return what must be the same to resume: the prompts, the model, the embedder and the plans."""
    plans: dict[str, JSON] = {run.benchmark: dataclasses.asdict(run) for run in runs}
    told = digests(anyio.run(prompts))
    names = {name: options[name] for name in ("model", "embedder")}
    return {"benchmark": "protocol", **names, "prompts": told, **plans}


def _prices(options: Mapping[str, Any]) -> Prices | None:
    given = check_prices(options)
    if options["prices"] is None:
        return None if given is None else Prices(*given)
    if given is not None:
        raise click.UsageError("prices come from --prices, or from --price-in and --price-out")
    found = read_prices(options["prices"]).get(options["model"])
    if found is None:
        raise ConfigurationError(f"{options['prices']} has no price for --model {options['model']}")
    return found


def _runs(options: Mapping[str, Any]) -> list[Run]:
    """Return the runs whose data is given, limited to its tasks, and print what is left out or changed."""
    runs = []
    for run in RUNS:
        data = options[run.benchmark]
        if data is None:
            click.echo(f"{run.benchmark}: left out, because --{run.benchmark} is not given", err=True)
            continue
        wanted = min(options["limit"] or run.n, run.n)
        n = min(wanted, _count(run.benchmark, data))
        trials, seeds = options["trials"] or run.plan.trials, options["seeds"] or run.plan.seeds
        plan = dataclasses.replace(run.plan, trials=trials, seeds=seeds)
        if (n, plan) != (run.n, run.plan):
            click.echo(f"{run.benchmark}: a pilot, because it differs from the protocol", err=True)
        runs.append(dataclasses.replace(run, n=n, plan=plan))
    if not runs:
        raise click.UsageError(f"no data is named: give {', '.join(f'--{name}' for name in _COMMANDS)}")
    return runs


def _count(benchmark: Benchmark, data: Path) -> int:
    if _COMMANDS[benchmark] is alfworld:
        return len(load_games(data))
    return len(load_problems(data) if benchmark == "humaneval" else load_questions(data))


def _played(run: Run, runs: list[Run], options: Mapping[str, Any], prices: Prices | None) -> bool:
    """Play a run by its own command, within the rest of the spending limit; return whether it was finished."""
    plan, out = run.plan, options["out"]
    data = "--games" if _COMMANDS[run.benchmark] is alfworld else "--data"
    command = [data, options[run.benchmark], "--limit", run.n, "--arms", ",".join(plan.arms)]
    command += ["--trials", plan.trials, "--seeds", ",".join(map(str, plan.seeds))]
    command += ["--top-k", plan.k, "--workers", options["workers"], "--embedder", options["embedder"]]
    command += ["--model", options["model"], "--out", out / run.benchmark, "--resume", *run.options]
    if options["base_url"]:
        command += ["--base-url", options["base_url"]]
    if prices is not None:
        command += ["--price-in", prices.input, "--price-out", prices.output]
    if options["max_cost"]:
        left = options["max_cost"] - sum(other.spent(out) for other in runs if other != run)
        if left <= 0:
            click.echo(f"{run.benchmark}: not started, because the spending limit is reached", err=True)
            return False
        command += ["--max-cost", left]
    click.echo(f"\n## {run.benchmark}\n")
    # Without standalone mode, click returns the exit code.
    return not _COMMANDS[run.benchmark].main([str(each) for each in command], standalone_mode=False)


if __name__ == "__main__":
    main()
