"""Options that several commands share, and what commands are given in their place."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast, get_args

import click

F = TypeVar("F", bound=Callable[..., Any] | click.Command)

_JSON = "jeeves_reflexion.cli.json"
_DEBUG = "jeeves_reflexion.cli.debug"

COUNT: Final = click.IntRange(1, 1_000_000_000)
"""How many of something a command is to find or show; more than that no store can count."""

NamedEmbedder: TypeAlias = Literal["minilm", "hashing"]
EmbedderChoice: TypeAlias = Literal["auto", NamedEmbedder]


class Number(click.FloatRange):
    """A number in a range, neither NaN nor infinite."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Return the number."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"it must be a finite number, not {value}", param, ctx)
        return number


@dataclass(frozen=True, slots=True)
class Where:
    """Which lessons or notes are meant, and how to answer; the default address is the command's."""

    address: str | None
    namespace: str
    as_json: bool


@dataclass(frozen=True, slots=True)
class Asking:
    """Whether a change is made without a question (``yes``), or only shown (``dry_run``)."""

    yes: bool
    dry_run: bool

    def __post_init__(self) -> None:
        if self.yes and self.dry_run:
            raise click.UsageError("--yes and --dry-run exclude each other")


@dataclass(frozen=True, slots=True)
class Why:
    """What goes into a lesson's history beside a change."""

    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where models are asked; ``timeout`` is in seconds."""

    base_url: str | None
    api_key_env: str | None
    timeout: float


def options_of(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return what adds several options; the help lists them in their order."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def gathered(name: str, kind: type, *options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return what adds options, and has a command called with a ``kind`` of them, as ``name``, in their place."""
    parts = [field.name for field in fields(kind)]

    def add(function: F) -> F:
        @functools.wraps(cast("Callable[..., Any]", function))
        def call(*args: Any, **given: Any) -> Any:  # noqa: ANN401 - as click calls it
            value = kind(**{part: given.pop(part) for part in parts})
            return cast("Callable[..., Any]", function)(*args, **given, **{name: value})

        return options_of(*options)(cast("F", call))

    return add


def renamed(now: str, then: str, parameter: str, **attributes: Any) -> Callable[[F], F]:  # noqa: ANN401 - click's own
    """Return what adds the option ``now`` as ``parameter``, which is also heard by its earlier name ``then``.

    The earlier name is not in the help, and says on standard error what it is called now.
    """

    def hear(ctx: click.Context, _: click.Parameter, value: object) -> None:
        if value is not None:
            click.echo(f"warning: {then} is called {now} now", err=True)
            ctx.default_map = {**(ctx.default_map or {}), parameter: value}

    # Eager, so that it is read before the option that takes its value.
    earlier = click.option(
        then,
        f"earlier_{parameter}",
        type=attributes.get("type"),
        hidden=True,
        is_eager=True,
        expose_value=False,
        callback=hear,
    )
    return options_of(earlier, click.option(now, parameter, **attributes))


def top_k_option(**attributes: Any) -> Callable[[F], F]:  # noqa: ANN401 - click's own
    """Return what adds ``--top-k`` as the parameter ``k``."""
    return renamed("--top-k", "-k", "k", metavar="N", type=COUNT, **attributes)


def limit_option(**attributes: Any) -> Callable[[F], F]:  # noqa: ANN401 - click's own
    """Return what adds ``--limit``, which some commands called ``--count``, as the parameter ``limit``."""
    return renamed("--limit", "--count", "limit", metavar="N", type=COUNT, **attributes)


def _remember(key: str) -> Callable[[click.Context, click.Parameter, bool], bool]:
    def callback(ctx: click.Context, _: click.Parameter, value: bool) -> bool:  # noqa: FBT001 - click calls it so
        ctx.meta[key] = value or ctx.meta.get(key, False)
        return value

    return callback


remember_json = _remember(_JSON)


def wants_json(ctx: click.Context) -> bool:
    """Whether the command was asked to answer machines; errors then are JSON too."""
    return bool(ctx.meta.get(_JSON, False))


def as_debug(ctx: click.Context) -> bool:
    """Whether errors are shown with their traceback."""
    return bool(ctx.meta.get(_DEBUG, False))


def _check_namespace(_: click.Context, __: click.Parameter, value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise click.BadParameter("it must be a name, not empty and without control characters")
    return value


debug_option = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=_remember(_DEBUG),
    help="Show where an error came from.",
)
json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    is_eager=True,
    callback=remember_json,
    help="Print one JSON object, errors included.",
)
quiet_option = click.option(
    "--quiet", "-q", is_flag=True, help="Don't show what happens; errors are still shown."
)
namespace_option = click.option(
    "--namespace",
    metavar="NS",
    default="default",
    callback=_check_namespace,
    show_default=True,
    help="Whose lessons: namespaces of one address never see each other's.",
)
embedder_option = click.option(
    "--embedder",
    type=click.Choice(get_args(EmbedderChoice)),
    default="auto",
    show_default=True,
    help="What finds lessons: all-MiniLM-L6-v2, or a hash of words that needs no model. auto: what an"
    " existing store was made with, and for a new one minilm, or hashing where that is not installed.",
)
credit_option = click.option(
    "--credit/--no-credit",
    default=None,
    help="Whether lessons are ranked and retired by what they did for earlier attempts.  [default: no]",
)
withhold_early_option = click.option(
    "--withhold-early",
    metavar="SHARE",
    type=Number(0, 0.5),
    help="With --withhold: a larger share for a lesson of which nothing is known, halved the more is known.",
)
by_option = click.option(
    "--by",
    metavar="NAME",
    default="the command line",
    show_default=True,
    help="Who says so; kept in the history.",
)
endpoint_options = gathered(
    "endpoint",
    Endpoint,
    click.option(
        "--base-url",
        metavar="URL",
        help="An OpenAI-compatible endpoint.  [default: OPENAI_BASE_URL, else OpenAI's]",
    ),
    click.option(
        "--api-key-env",
        metavar="VAR",
        help="The environment variable that holds the key.  [default: OPENAI_API_KEY]",
    ),
    click.option(
        "--timeout",
        metavar="SECONDS",
        type=Number(0.001, 86_400),
        default=60.0,
        show_default=True,
        help="The longest wait for one answer of a model.",
    ),
)
asking_options = gathered(
    "asking",
    Asking,
    click.option("--yes", "-y", is_flag=True, help="Don't ask."),
    click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing."),
)
why_options = gathered(
    "why",
    Why,
    by_option,
    click.option("--reason", metavar="TEXT", default="", help="Why; kept in the history."),
)


_LESSONS: Final[dict[str, Any]] = {
    "metavar": "ADDRESS",
    "help": "The folder of the lessons, or a postgresql:// address.  [default: JEEVES_LESSONS, else among your data]",
}
lessons_option = click.option("--lessons", "address", **_LESSONS)
lessons_or_place = renamed("--lessons", "--place", "address", **_LESSONS)


def answered_by(make: Callable[[Where], object], address_option: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return what adds an address, ``--namespace``, ``--json`` and ``--debug``; a command gets what they make."""

    def add(function: F) -> F:
        @functools.wraps(cast("Callable[..., Any]", function))
        def call(where: Where, **given: Any) -> Any:  # noqa: ANN401 - as click calls it
            return cast("Callable[..., Any]", function)(make(where), **given)

        options = (address_option, namespace_option, json_option, debug_option)
        return gathered("where", Where, *options)(cast("F", call))

    return add


class Sections(click.Group):
    """A group that lists its commands under headings."""

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[click.Command]], **kwargs: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **kwargs)
        self.sections = sections
        for command in (each for commands in sections.values() for each in commands):
            self.add_command(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, section by section."""
        width = formatter.width - 6 - max(map(len, self.commands))
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(each.name or "", each.get_short_help_str(width)) for each in commands])
