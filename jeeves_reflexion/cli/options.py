"""Options that several commands share, and what commands are given in their place."""

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
"""How many of something a command is to find or show; more than that no store can count."""


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
        """Return it; whether an address will do is found out when the embedder is made."""
        is_address = str(value).startswith(("http://", "https://"))
        return str(value) if is_address else super().convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return what the help shows."""
        return f"[{'|'.join(self.choices)}|URL]"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where models are asked, and how; ``timeout`` is in seconds."""

    base_url: str | None
    api_key_env: str | None
    timeout: float
    max_tokens: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    stream: bool = False
    prices: Mapping[str, Prices] = field(default_factory=dict)


def options_of(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return what adds several options; the help lists them in their order."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def gathered(name: str, kind: type, *options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return what adds options, and has a command called with a ``kind`` of them, as ``name``, in their place."""
    parts = inspect.signature(kind).parameters

    def add(function: F) -> F:
        @functools.wraps(cast("Callable[..., Any]", function))
        def call(*args: Any, **given: Any) -> Any:  # noqa: ANN401 - as click calls it
            value = kind(**{part: given.pop(part) for part in parts if part in given})
            return cast("Callable[..., Any]", function)(*args, **given, **{name: value})

        return options_of(*options)(cast("F", call))

    return add


def remembered(ctx: click.Context, flag: str) -> bool:
    """Whether a flag such as ``--json`` was given, to whichever command of the line."""
    return bool(ctx.meta.get(f"{__name__}{flag}", False))


def remember(flag: str, ctx: click.Context, _: click.Parameter, value: bool) -> bool:  # noqa: FBT001 - as click calls
    """Have a flag remembered; with its name a callback of click's."""
    ctx.meta[f"{__name__}{flag}"] = value or remembered(ctx, flag)
    return value


remember_json = functools.partial(remember, "--json")


def _check_namespace(_: click.Context, __: click.Parameter, value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise click.BadParameter("it must be a name, not empty and without control characters")
    return value


def _one_line(_: click.Context, __: click.Parameter, value: str) -> str:
    """Take what hides or breaks a line out of a text that goes into the history; the library redacts it."""
    return one_line(value)


def _headers(_: click.Context, __: click.Parameter, value: Sequence[str]) -> dict[str, str]:
    """Read headers; what is wrong with one is told without its value, which may be a key."""
    from vectorstores.header_secrets import check_headers  # noqa: PLC0415 - --help is not to wait for it

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
    help="Whose lessons: namespaces of one address never see each other's.",
)
lessons = click.option(
    "--lessons",
    "address",
    metavar="ADDRESS",
    help="The folder of the lessons, or a postgresql:// address.  [default: JEEVES_LESSONS, else among your data]",
)
embedder = click.option(
    "--embedder",
    type=EmbedderName(["auto", "minilm", "hashing"]),
    default="auto",
    help="What finds lessons: all-MiniLM-L6-v2, a hash of words that needs no model, or a service with OpenAI's"
    " /embeddings at 'https://HOST/v1?model=NAME&dim=1536'. auto: what an existing store was made with, and for a"
    " new one minilm, or hashing where that is not installed.",
)
credit = click.option(
    "--credit",
    is_flag=True,
    help="Rank lessons by what they did for earlier attempts, and retire those that harm.",
)
withhold = click.option(
    "--withhold",
    metavar="SHARE",
    type=Number(0, 0.5),
    default=0.0,
    help="Withhold each lesson from this share of recalls, by chance, so that what it does is known; means --credit.",
)
check = click.option(
    "--check",
    is_flag=True,
    help="Ask the judge's model of each new lesson whether it would change an attempt; one that would not is written"
    " once more, or dropped.",
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
        help="The longest wait for one answer of a model.",
    ),
    click.option("--max-tokens", metavar="N", type=COUNT, help="The longest answer of a model, in tokens."),
    click.option(
        "--header",
        "headers",
        metavar="'NAME: VALUE'",
        multiple=True,
        callback=_headers,
        help="A header for each request to the endpoint; may be repeated. No error shows its value.",
    ),
    click.option(
        "--prices",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False),
        callback=_prices,
        help="What models cost, as JSON: {NAME: {input, output}} in US dollars per million tokens, or LiteLLM's table.",
    ),
    click.option("--stream", is_flag=True, help="Have answers sent as they are written."),
)
by = click.option(
    "--by",
    metavar="NAME",
    default="the command line",
    callback=_one_line,
    help="Who says so; kept in the history.",
)
reason = click.option(
    "--reason",
    metavar="TEXT",
    default="",
    show_default=False,
    callback=_one_line,
    help="Why; kept in the history.",
)
create = click.option("--create", is_flag=True, help="Make a store where there is none.")
kind = click.option("--kind", metavar="KIND", help="The kind of the task.")
yes = click.option("--yes", "-y", is_flag=True, help="Don't ask.")
dry_run = click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")


def top_k(**attributes: Any) -> Callable[[F], F]:  # noqa: ANN401 - click's own
    """Return what adds ``--top-k`` as the parameter ``k``."""
    return click.option("--top-k", "k", metavar="N", type=COUNT, **attributes)
