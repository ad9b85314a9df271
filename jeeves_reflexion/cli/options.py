"""Options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

import click
from click.core import ParameterSource

F = TypeVar("F", bound=Callable[..., Any] | click.Command)

_JSON = "jeeves_reflexion.cli.json"
_DEBUG = "jeeves_reflexion.cli.debug"

COUNT: Final = click.IntRange(1, 1_000_000_000)
"""How many of something a command is to find or show; more than that no store can count."""

DEFAULT_NAMESPACE = "default"

NamedEmbedder: TypeAlias = Literal["minilm", "hashing"]
EmbedderChoice: TypeAlias = Literal["auto", NamedEmbedder]


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


def endpoint_options(function: F) -> F:
    """Add ``--base-url``, ``--api-key-env`` and ``--timeout``: where models are asked, and how long for an answer."""
    for option in (
        click.option(
            "--timeout",
            metavar="SECONDS",
            type=click.FloatRange(min=0.001, max=86_400),
            default=60.0,
            callback=check_finite,
            show_default=True,
            help="The longest wait for one answer of a model.",
        ),
        click.option(
            "--api-key-env",
            metavar="VAR",
            help="The environment variable that holds the key.  [default: OPENAI_API_KEY]",
        ),
        click.option(
            "--base-url",
            metavar="URL",
            help="An OpenAI-compatible endpoint.  [default: OPENAI_BASE_URL, else OpenAI's]",
        ),
    ):
        function = option(function)
    return function
