"""Options that several commands share, and the values that commands receive for them."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from jeeves_reflexion.text import one_line

if TYPE_CHECKING:
    from jeeves_reflexion.models.prices import Prices

F = TypeVar("F", bound=Callable[..., Any] | click.Command)

COUNT: Final = click.IntRange(1, 1_000_000_000)
"""How many items a command finds or shows."""


class Number(click.FloatRange):
    """A number in a range, neither NaN nor infinite."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Return the number."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"it must be a finite number, not {value}", param, ctx)
        return number


class EmbedderName(click.Choice[str]):
    """The name of an embedder, or the address of one."""

    name = "embedder"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401
        """Return the name or address. An address is checked later, when the embedder is made."""
        is_address = str(value).startswith(("http://", "https://"))
        return str(value) if is_address else super().convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return what the help shows."""
        return f"[{'|'.join(self.choices)}|URL]"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and how to reach models; ``timeout`` is in seconds."""

    base_url: str | None
    api_key_env: str | None
    timeout: float
    max_tokens: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    stream: bool = False
    prices: Mapping[str, Prices] = field(default_factory=dict)


def options_of(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds several options; the help lists them in this order."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def gathered(name: str, kind: type, *options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds options and passes them to the command as one ``kind``, the argument ``name``.

    A command may be ``async``: it runs in an event loop of its own.
    """
    parts = inspect.signature(kind).parameters

    def add(function: F) -> F:
        @functools.wraps(cast("Callable[..., Any]", function))
        def call(*args: Any, **given: Any) -> Any:  # noqa: ANN401 - as click calls it
            value = kind(**{part: given.pop(part) for part in parts if part in given})
            answer = cast("Callable[..., Any]", function)(*args, **given, **{name: value})
            if not inspect.iscoroutine(answer):
                return answer
            import anyio  # noqa: PLC0415 - keeps --help quick

            return anyio.run(lambda: answer)

        return options_of(*options)(cast("F", call))

    return add


def remembered(ctx: click.Context, flag: str) -> bool:
    """Whether a flag such as ``--json`` was given to any command on the line."""
    return bool(ctx.meta.get(f"{__name__}{flag}", False))


def remember(flag: str, ctx: click.Context, _: click.Parameter, value: bool) -> bool:  # noqa: FBT001 - as click calls
    """Remember a flag for :func:`remembered`; with its name bound, a click callback."""
    ctx.meta[f"{__name__}{flag}"] = value or remembered(ctx, flag)
    return value


remember_json = functools.partial(remember, "--json")


def _check_namespace(_: click.Context, __: click.Parameter, value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise click.BadParameter("it must be a name, not empty and without control characters")
    return value


def _one_line(_: click.Context, __: click.Parameter, value: str) -> str:
    """Put a text for the history on one visible line; the library redacts it."""
    return one_line(value)


def _headers(_: click.Context, __: click.Parameter, value: Sequence[str]) -> dict[str, str]:
    """Read headers. An error never shows a header's value, which may be a key."""
    from vectorstores.header_secrets import check_headers  # noqa: PLC0415 - keeps --help quick

    parts = [text.partition(":") for text in value]
    if not all(name.strip() and colon for name, colon, _ in parts):
        raise click.BadParameter("it must be 'NAME: VALUE'")
    headers = {name.strip(): said.strip() for name, _, said in parts}
    try:
        check_headers(headers)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return headers


def _prices(_: click.Context, __: click.Parameter, value: str | None) -> dict[str, Prices]:
    if value is None:
        return {}
    from jeeves_reflexion.models.prices import read_prices  # noqa: PLC0415 - as above

    return read_prices(value)


debug = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=functools.partial(remember, "--debug"),
    help="Show where an error came from.",
)
json = click.option(
    "--json",
    "as_json",
    is_flag=True,
    is_eager=True,
    callback=remember_json,
    help="Print one JSON object, errors included.",
)
quiet = click.option("--quiet", "-q", is_flag=True, help="Don't show what happens; errors are still shown.")
namespace = click.option(
    "--namespace",
    metavar="NS",
    default="default",
    callback=_check_namespace,
    help="The namespace of the lessons; one namespace never sees the lessons of another.",
)
lessons = click.option(
    "--lessons",
    "address",
    metavar="ADDRESS",
    help="The folder of the lessons, or a postgresql:// address.  [default: JEEVES_LESSONS, else a folder in your data"
    " directory]",
)
embedder = click.option(
    "--embedder",
    type=EmbedderName(["auto", "minilm", "hashing"]),
    default="auto",
    help="The embedder that finds lessons. minilm: the model all-MiniLM-L6-v2. hashing: a hash of words, without a"
    " model. 'https://HOST/v1?model=NAME&dim=1536': a service with OpenAI's /embeddings. auto: the embedder of the"
    " existing store; for a new store minilm, or hashing if minilm is not installed.",
)
credit = click.option(
    "--credit",
    is_flag=True,
    help="Rank lessons by their effect on earlier attempts, and retire lessons that harm.",
)
withhold = click.option(
    "--withhold",
    metavar="SHARE",
    type=Number(0, 0.5),
    default=0.0,
    help="Withhold each lesson from this share of recalls at random, to measure its effect. Implies --credit.",
)
check = click.option(
    "--check",
    is_flag=True,
    help="Ask the judge's model whether each new lesson would change an attempt. If not, the lesson is rewritten once,"
    " then dropped.",
)
endpoint = gathered(
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
        help="How long to wait for one reply of the model.",
    ),
    click.option("--max-tokens", metavar="N", type=COUNT, help="The most tokens of one reply of the model."),
    click.option(
        "--header",
        "headers",
        metavar="'NAME: VALUE'",
        multiple=True,
        callback=_headers,
        help="A header for each request to the endpoint; may be repeated. Errors never show its value.",
    ),
    click.option(
        "--prices",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False),
        callback=_prices,
        help="The prices of models as JSON: {NAME: {input, output}} in US dollars per million tokens, or LiteLLM's"
        " table.",
    ),
    click.option("--stream", is_flag=True, help="Ask the endpoint to stream its replies."),
)
by = click.option(
    "--by",
    metavar="NAME",
    default="the command line",
    callback=_one_line,
    help="Your name, kept in the history.",
)
reason = click.option(
    "--reason",
    metavar="TEXT",
    default="",
    show_default=False,
    callback=_one_line,
    help="The reason, kept in the history.",
)
create = click.option("--create", is_flag=True, help="Create the store if it does not exist.")
kind = click.option("--kind", metavar="KIND", help="The kind of the task.")
yes = click.option("--yes", "-y", is_flag=True, help="Don't ask for confirmation.")
dry_run = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")


def top_k(**attributes: Any) -> Callable[[F], F]:  # noqa: ANN401 - click's own
    """Return a decorator that adds ``--top-k`` as the parameter ``k``."""
    return click.option("--top-k", "k", metavar="N", type=COUNT, **attributes)
