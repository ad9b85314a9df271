"""``jeeves-reflexion workflow``: run or check a workflow file."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Final

import anyio
import click

from jeeves_reflexion import events
from jeeves_reflexion.cli import options
from jeeves_reflexion.cli.models import key_of, model_at
from jeeves_reflexion.cli.screen import Screen
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.events import Event
from jeeves_reflexion.models.endpoint import EndpointModel
from jeeves_reflexion.sandbox import Sandbox
from jeeves_reflexion.session import logger
from jeeves_reflexion.summary import counted
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows import Workflow

_FILE: Final = click.Path(dir_okay=False, path_type=Path)


@click.group()
def workflow() -> None:
    """Workflows in YAML: nodes that generate, evaluate and correct."""


@workflow.command(short_help="Run a workflow file and print its final state.")
@click.argument("file", type=_FILE)
@click.option(
    "--state",
    metavar="JSON|@FILE",
    default="{}",
    help='The initial state: a JSON object, "@" and the name of a file that holds one, or "-" for stdin.',
)
@click.option("--model", metavar="NAME", help="Use this model instead of those that the file names.")
@options.endpoint
@click.option(
    "--allow-weaker",
    is_flag=True,
    help="If this machine can't isolate code, run it anyway, with resource limits only.",
)
@options.json
@options.quiet
@options.debug
@click.pass_context
def run(
    ctx: click.Context,
    /,
    file: Path,
    state: str,
    endpoint: options.Endpoint,
    *,
    as_json: bool,
    quiet: bool,
    **how: Any,  # noqa: ANN401 - --model, --allow-weaker
) -> None:
    """Run the workflow in FILE. Its final state goes to stdout as JSON, progress to stderr.

    The exit code is 1 if the final state says "success": false, which means that no output was valid.
    """
    # The screen shows warnings already; the log would show them twice.
    logger.addHandler(logging.NullHandler())
    key_of(endpoint)  # reports a missing key before anything else
    begin, loaded = _read_state(state), Workflow.load(file)
    screen = Screen(quiet=quiet or as_json)
    final = anyio.run(partial(_run, loaded, begin, endpoint, screen, **how))
    screen.document(final)
    ctx.exit(1 if final.get("success") is False else 0)


@workflow.command(short_help="Check a workflow file without running it.")
@click.argument("file", type=_FILE)
@options.json
@options.debug
def check(file: Path, *, as_json: bool) -> None:
    """Check the keys, values, templates, schemas and routes of FILE. An error names the line of the first problem."""
    loaded = Workflow.load(file)
    loaded.check()
    nodes = [node.name for node in loaded.plan.nodes]
    screen = Screen()
    if as_json:
        screen.document({"name": loaded.plan.name, "nodes": nodes})
    else:
        screen.result(f"{loaded.plan.name}: {counted(len(nodes), 'node')}, no problem found")


@workflow.command(short_help="Print the JSON Schema of workflow files, for editors.")
def schema() -> None:
    """Print the JSON Schema of workflow files, with which editors complete and check them."""
    click.echo(
        resources.files("jeeves_reflexion.workflows").joinpath("workflow.schema.json").read_text("utf-8")
    )


def _read_state(given: str) -> Mapping[str, JSON]:
    try:
        text = given
        if given == "-":
            text = sys.stdin.buffer.read().decode()
        elif given.startswith("@"):
            text = Path(given[1:]).read_text("utf-8")
        value = json.loads(text)
    except OSError as error:
        raise ConfigurationError(f"--state: {given[1:]} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"--state is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigurationError('--state must be a JSON object, such as {"request": "..."}')
    return value


async def _run(
    loaded: Workflow,
    state: Mapping[str, JSON],
    endpoint: options.Endpoint,
    screen: Screen,
    *,
    model: str | None,
    allow_weaker: bool,
) -> dict[str, JSON]:
    """Run a workflow; ``model=None`` asks the models that the file names."""
    opened: dict[str, EndpointModel] = {}
    async with AsyncExitStack() as open_things:

        def by_name(name: str) -> EndpointModel:
            name = model or name.removeprefix("openai:")
            if name not in opened:
                opened[name] = model_at(endpoint, name)
                open_things.push_async_callback(opened[name].aclose)
            return opened[name]

        sandbox = await open_things.enter_async_context(Sandbox(allow_weaker=allow_weaker))
        return await loaded.run(
            state,
            model=None if model is None else by_name(model),
            models=by_name,
            sandbox=sandbox,
            listener=partial(show, screen),
        )


def show(screen: Screen, event: Event) -> None:
    """Show an event of a workflow."""
    match event:
        case events.AgentEvent(name="workflow.node_started", data=data):
            screen.note(f"node {data['node']}", "bold")
        case events.DraftJudged(number=number, satisfactory=passed, score=score, issues=issues):
            verdict, said = (
                "valid" if passed else "not valid",
                "no score" if score is None else f"score {score:.2f}",
            )
            screen.note(f"attempt {number}: {verdict}, {said}", indent=2)
            for issue in issues[:5]:
                screen.note(f"- {issue}", "dim", indent=4)
        case events.ModelCalled(model=model, seconds=seconds):
            screen.note(f"{model} answered in {seconds:.1f} s", "dim", indent=2)
        case events.Warned(message=message):
            screen.note(f"warning: {message}", "yellow", indent=2)
        case _:
            pass
