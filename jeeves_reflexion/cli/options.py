"""Options that several commands share, how a command meets its service, and help in sections."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast, get_args

import click
from click.core import ParameterSource

F = TypeVar("F", bound=Callable[..., Any] | click.Command)

_JSON = "jeeves_reflexion.cli.json"
_DEBUG = "jeeves_reflexion.cli.debug"

COUNT: Final = click.IntRange(1, 1_000_000_000)
"""How many of something a command is to find or show; more than that no store can count."""

BY_DEFAULT = "the command line"
DEFAULT_NAMESPACE = "default"

NamedEmbedder: TypeAlias = Literal["minilm", "hashing"]
EmbedderChoice: TypeAlias = Literal["auto", NamedEmbedder]


@dataclass(frozen=True, slots=True)
class Where:
    """Which lessons are meant, and how to answer."""

    place: str | None
    namespace: str = DEFAULT_NAMESPACE
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class Asking:
    """Whether a change is made without a question (``yes``), or only shown (``dry_run``)."""

    yes: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Why:
    """What goes into a lesson's history beside a change."""

    by: str = BY_DEFAULT
    reason: str = ""


def _remember(key: str) -> Callable[[click.Context, click.Parameter, bool], bool]:
    def callback(ctx: click.Context, _: click.Parameter, value: bool) -> bool:  # noqa: FBT001 - click calls it so
        ctx.meta[key] = value or ctx.meta.get(key, False)
        return value

    return callback


remember_json = _remember(_JSON)


def renamed(now: str, then: str, parameter: str, **attributes: Any) -> Callable[[F], F]:  # noqa: ANN401 - click's own
    """Return what adds the option ``now`` as ``parameter``, which is also heard by its earlier name ``then``.

    The earlier name is not in the help, and says on standard error what it is called now.
    """
    asked = attributes.pop("callback", None)

    def kept(ctx: click.Context) -> str:
        return f"{__name__}.{ctx.command_path}.{now}"

    def hear(ctx: click.Context, _: click.Parameter, value: object) -> None:
        if value is not None:
            click.echo(f"warning: {then} is called {now} now", err=True)
            ctx.meta[kept(ctx)] = value

    def take(ctx: click.Context, option: click.Parameter, value: object) -> object:
        by_name = ctx.get_parameter_source(parameter) is ParameterSource.COMMANDLINE
        value = value if by_name else ctx.meta.get(kept(ctx), value)
        return value if asked is None else asked(ctx, option, value)

    def add(function: F) -> F:
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
        return click.option(now, parameter, callback=take, **attributes)(earlier(function))

    return add


def options_of(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return what adds several options; the help lists them in their order."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def number_option(name: str, metavar: str, kind: click.FloatRange, **attributes: Any) -> Callable[[F], F]:  # noqa: ANN401 - click's own
    """Return what adds an option with a number that is one, and not without end."""
    return click.option(name, metavar=metavar, type=kind, callback=_check_number, **attributes)


def _check_number(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"it must be a number, not {value}")
    return value


def top_k_option(**attributes: Any) -> Callable[[F], F]:  # noqa: ANN401 - click's own
    """Return what adds ``--top-k`` as the parameter ``k``."""
    return renamed("--top-k", "-k", "k", metavar="N", type=COUNT, **attributes)


def limit_option(**attributes: Any) -> Callable[[F], F]:  # noqa: ANN401 - click's own
    """Return what adds ``--limit``, which some commands called ``--count``, as the parameter ``limit``."""
    return renamed("--limit", "--count", "limit", metavar="N", type=COUNT, **attributes)


def check_text(_: click.Context, __: click.Parameter, value: str) -> str:
    """Refuse an argument that is no text in the terminal's encoding; a click callback."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise click.BadParameter(f"it is no text: {error.reason} at character {error.start + 1}") from error
    return value


def _check_namespace(_: click.Context, __: click.Parameter, value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise click.BadParameter("it must be a name, not empty and without control characters")
    return value


def check_finite(_: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Refuse a number of seconds that is none, or without end; a click callback."""
    if value is not None and not math.isfinite(value):
        raise click.UsageError(f"{parameter.opts[0]} must be a number of seconds, not {value}")
    return value


def wants_json(ctx: click.Context) -> bool:
    """Whether the command was asked to answer machines; errors then are JSON too."""
    return bool(ctx.meta.get(_JSON, False))


def as_debug(ctx: click.Context) -> bool:
    """Whether errors are shown with their traceback."""
    return bool(ctx.meta.get(_DEBUG, False))


def debug_option(function: F) -> F:
    """Add ``--debug``."""
    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_remember(_DEBUG),
        help="Show where an error came from.",
    )(function)


def json_option(function: F) -> F:
    """Add ``--json`` as the parameter ``as_json``."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        is_eager=True,
        callback=remember_json,
        help="Print one JSON object, errors included.",
    )(function)


def namespace_option(function: F) -> F:
    """Add ``--namespace``."""
    return click.option(
        "--namespace",
        metavar="NS",
        default=DEFAULT_NAMESPACE,
        callback=_check_namespace,
        show_default=True,
        help="Whose lessons: namespaces of one place never see each other's.",
    )(function)


def embedder_option(function: F) -> F:
    """Add ``--embedder``."""
    return click.option(
        "--embedder",
        type=click.Choice(get_args(EmbedderChoice)),
        default="auto",
        show_default=True,
        help="What finds lessons: all-MiniLM-L6-v2, or a hash of words that needs no model. auto: what an"
        " existing store was made with, and for a new one minilm, or hashing where that is not installed.",
    )(function)


def credit_option(function: F) -> F:
    """Add ``--credit`` and ``--no-credit``: None without them, which is as a lesson store does by itself."""
    return click.option(
        "--credit/--no-credit",
        default=None,
        help="Whether lessons are ranked and retired by what they did for earlier attempts.  [default: no]",
    )(function)


def withhold_early_option(function: F) -> F:
    """Add ``--withhold-early``."""
    return number_option(
        "--withhold-early",
        "SHARE",
        click.FloatRange(0, 0.5),
        help="With --withhold: a larger share for a lesson of which nothing is known, halved the more is known.",
    )(function)


def endpoint_options(function: F) -> F:
    """Add ``--base-url``, ``--api-key-env`` and ``--timeout``: where models are asked, and how long for an answer."""
    return options_of(
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
            type=click.FloatRange(min=0.001, max=86_400),
            default=60.0,
            callback=check_finite,
            show_default=True,
            help="The longest wait for one answer of a model.",
        ),
    )(function)


def where_options(place: Callable[[F], F]) -> Callable[[F], F]:
    """Return what adds ``--namespace``, ``--json``, ``--debug`` and ``place``, all as ``where``, a :class:`Where`."""

    def add(function: F) -> F:
        made = bundled(function, "where", Where, ("place", "namespace", "as_json"))
        for option in (debug_option, json_option, namespace_option, place):
            made = option(made)
        return made

    return add


def common(function: F) -> F:
    """Add the options that every command over the lessons of a namespace has."""
    return where_options(_lessons_option)(function)


def everywhere(function: F) -> F:
    """Add the options of a command over all namespaces of a place; they come as ``where``, too."""
    made = bundled(function, "where", Where, ("place", "as_json"))
    return _lessons_option(debug_option(json_option(made)))


def _lessons_option(function: F) -> F:
    return renamed(
        "--lessons",
        "--place",
        "place",
        metavar="ADDRESS",
        help="The folder of the lessons, or a postgresql:// address.  [default: JEEVES_LESSONS, else among your data]",
    )(function)


def asking_options(function: F) -> F:
    """Add ``--yes`` and ``--dry-run``; they come as ``asking``, an :class:`Asking`."""
    function = bundled(function, "asking", _asking, ("yes", "dry_run"))
    dry = click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
    return click.option("--yes", "-y", is_flag=True, help="Don't ask.")(dry(function))


def why_options(function: F) -> F:
    """Add ``--reason`` and ``--by``; they come as ``why``, a :class:`Why`."""
    function = bundled(function, "why", Why, ("by", "reason"))
    reason = click.option(
        "--reason", metavar="TEXT", default="", callback=_clean, help="Why; kept in the history."
    )
    return by_option(reason(function))


def by_option(function: F) -> F:
    """Add ``--by``."""
    return click.option(
        "--by",
        metavar="NAME",
        default=BY_DEFAULT,
        callback=_clean,
        show_default=True,
        help="Who says so; kept in the history.",
    )(function)


def _clean(_: click.Context, __: click.Parameter, value: str) -> str:
    """Take secrets and what hides out of a text that goes into the history."""
    from jeeves_reflexion.redaction import redact  # noqa: PLC0415 - not for --help
    from jeeves_reflexion.text import one_line  # noqa: PLC0415

    return one_line(redact(value))


def _asking(*, yes: bool, dry_run: bool) -> Asking:
    if yes and dry_run:
        raise click.UsageError("--yes and --dry-run exclude each other")
    return Asking(yes, dry_run)


def bundled(function: F, name: str, make: Callable[..., object], options: Sequence[str]) -> F:
    """Have a command called with one value in the place of several options."""

    @functools.wraps(cast("Callable[..., Any]", function))
    def call(**given: Any) -> Any:  # noqa: ANN401 - as click calls it
        value = make(**{option: given.pop(option) for option in options})
        return cast("Callable[..., Any]", function)(**given, **{name: value})

    return cast("F", call)


def served_by(service: str) -> Callable[[F], F]:
    """Return what has a command answered by the method of its name of ``service``, ``module:Class`` of this package.

    The service is loaded when the command runs: ``--help`` and a typing error need none of it.
    """

    def bound(function: F) -> F:
        @functools.wraps(cast("Callable[..., Any]", function))
        def call(*, where: Where, **given: Any) -> None:  # noqa: ANN401 - as click calls it
            module, _, name = service.partition(":")
            made = getattr(importlib.import_module(f"jeeves_reflexion.cli.{module}"), name)
            getattr(made(where), call.__name__)(**given)

        return cast("F", call)

    return bound


class Sections(click.Group):
    """A group that lists its commands under headings."""

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]], **kwargs: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **kwargs)
        self.sections = sections

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, section by section."""
        width = formatter.width - 6 - max(map(len, self.commands))
        for title, names in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(width)) for name in names])
