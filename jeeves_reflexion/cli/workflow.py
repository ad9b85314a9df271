"""``jeeves-reflexion workflow``: run or check a workflow file."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from jeeves_reflexion.cli.options import debug_option, endpoint_options, json_option
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.types import JSON

if TYPE_CHECKING:
    from jeeves_reflexion.cli.endpoints import Endpoint
    from jeeves_reflexion.cli.screen import Screen
    from jeeves_reflexion.events import Event
    from jeeves_reflexion.models import OpenAIModel
    from jeeves_reflexion.workflows import Workflow

_FILE: Final = click.Path(dir_okay=False, path_type=Path)
_MOST_STATE: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class Order:
    """What the command line asks for; ``model=None`` asks the models that the file names."""

    state: Mapping[str, JSON]
    model: str | None
    endpoint: Endpoint
    trusted: bool
    allow_weaker: bool


@click.group(short_help="Run a workflow file, or check it.")
def workflow() -> None:
    """Workflows in YAML: nodes that generate, evaluate and correct."""


@workflow.command(short_help="Run a workflow file and print its final state.")
@click.argument("file", type=_FILE)
@click.option(
    "--state",
    "--input",
    "state",
    metavar="JSON|@FILE",
    default="{}",
    help='The state to begin with: a JSON object, "@" and the name of a file with one, or "-" for stdin.',
)
@click.option("--model", metavar="NAME", help="Ask this model, whichever the file names.")
@endpoint_options
@click.option(
    "--trusted",
    is_flag=True,
    help="Run the inline Python of a file that says trusted: true in this process, without a sandbox.",
)
@click.option(
    "--allow-weaker",
    is_flag=True,
    help="Run code also where this machine can't isolate it, under resource limits alone.",
)
@json_option
@click.option("--quiet", "-q", is_flag=True, help="Don't show what happens; errors are still shown.")
@debug_option
@click.pass_context
def run(  # noqa: PLR0913 - one parameter for each option
    ctx: click.Context,
    file: Path,
    *,
    state: str,
    model: str | None,
    base_url: str | None,
    api_key_env: str | None,
    timeout: float,
    trusted: bool,
    allow_weaker: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run the workflow in FILE. Its final state goes to stdout as JSON, what happens meanwhile to stderr.

    The exit code is 1 where the state says "success": false: no output was valid.
    """
    # Not before the command line has been read: --help and a typing error need none of it.
    import anyio  # noqa: PLC0415

    from jeeves_reflexion.cli.endpoints import Endpoint, key_of  # noqa: PLC0415
    from jeeves_reflexion.cli.screen import Screen  # noqa: PLC0415
    from jeeves_reflexion.session import logger  # noqa: PLC0415
    from jeeves_reflexion.workflows import Workflow  # noqa: PLC0415

    # The screen shows warnings as what they are; the log would show them a second time.
    logger.addHandler(logging.NullHandler())
    endpoint = Endpoint(model or "", base_url, api_key_env, timeout)
    key_of(endpoint)  # a key that is not there is told before anything else
    order = Order(_read_state(state), model, endpoint, trusted, allow_weaker)
    loaded = Workflow.load(file)
    screen = Screen(quiet=quiet or as_json)
    with screen.busy():
        final = anyio.run(_run, loaded, order, screen)
    screen.document(final)
    ctx.exit(1 if final.get("success") is False else 0)


@workflow.command(short_help="Say whether a workflow file can work, without running it.")
@click.argument("file", type=_FILE)
@json_option
@debug_option
def check(file: Path, *, as_json: bool) -> None:
    """Check FILE: its keys, values, templates, schemas and routes. The first problem is an error with its line."""
    from jeeves_reflexion.cli.screen import Screen  # noqa: PLC0415
    from jeeves_reflexion.workflows import Workflow  # noqa: PLC0415

    loaded = Workflow.load(file)
    loaded.check()
    nodes = [node.name for node in loaded.plan.nodes]
    screen = Screen(quiet=False)
    if as_json:
        screen.document({"name": loaded.plan.name, "nodes": nodes, "trusted": loaded.plan.trusted})
    else:
        screen.result(
            f"{loaded.plan.name}: {len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}, no problem found"
        )


@workflow.command(short_help="Print the JSON Schema of workflow files, for editors.")
def schema() -> None:
    """Print the JSON Schema of workflow files; editors complete and check files with it."""
    click.echo(
        resources.files("jeeves_reflexion.workflows").joinpath("workflow.schema.json").read_text("utf-8")
    )


def _read_state(given: str) -> Mapping[str, JSON]:
    text = given
    try:
        if given == "-":
            text = sys.stdin.buffer.read(_MOST_STATE + 1).decode()
        elif given.startswith("@"):
            with Path(given[1:]).open("rb") as file:
                text = file.read(_MOST_STATE + 1).decode()
        if len(text) > _MOST_STATE:
            raise ConfigurationError(f"--state is longer than {_MOST_STATE:,} characters")
        value = json.loads(text)
    except OSError as error:
        raise ConfigurationError(f"--state: the file can't be read: {error}") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f"--state is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigurationError('--state must be a JSON object, such as {"request": "..."}')
    return value


async def _run(loaded: Workflow, order: Order, screen: Screen) -> dict[str, JSON]:
    from jeeves_reflexion.cli.endpoints import model_at  # noqa: PLC0415
    from jeeves_reflexion.sandbox import Sandbox  # noqa: PLC0415

    opened: dict[str, OpenAIModel] = {}
    async with AsyncExitStack() as open_things:

        def by_name(name: str) -> OpenAIModel:
            name = order.model or name.removeprefix("openai:")
            if name not in opened:
                opened[name] = model_at(replace(order.endpoint, model=name))
                open_things.push_async_callback(opened[name].aclose)
            return opened[name]

        sandbox = await open_things.enter_async_context(Sandbox(allow_weaker=order.allow_weaker))
        return await loaded.run(
            order.state,
            model=None if order.model is None else by_name(order.model),
            models=by_name,
            sandbox=sandbox,
            listener=Progress(screen),
            trusted=order.trusted,
        )


class Progress:
    """A listener that tells a person what a workflow does."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def __call__(self, event: Event) -> None:
        """Show an event."""
        from jeeves_reflexion import events  # noqa: PLC0415

        match event:
            case events.AgentEvent(name="workflow.node_started", data=data):
                self._screen.note(f"node {data['node']}", "bold")
                self._screen.waiting_for(f"node {data['node']}")
            case events.DraftJudged(number=number, satisfactory=passed, score=score, issues=issues):
                verdict = "valid" if passed else "not valid"
                self._screen.note(f"attempt {number}: {verdict}, score {score or 0.0:.2f}", indent=2)
                for issue in issues[:5]:
                    self._screen.note(f"- {issue}", "dim", indent=4)
            case events.ModelCalled(model=model, seconds=seconds):
                self._screen.note(f"{model} answered in {seconds:.1f} s", "dim", indent=2)
            case events.Warned(message=message):
                self._screen.note(f"warning: {message}", "yellow", indent=2)
            case _:
                pass
