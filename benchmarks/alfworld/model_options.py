"""The options of ``bench alfworld`` for language models: who plays, and when a try ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from jeeves_reflexion import ChatModel, ConfigurationError

from ..options import endpoint_options, named_model
from .dry_run import dry_run_model

F = TypeVar("F", bound=Callable[..., Any])

REPEATS: Final = 3
"""How often a model may repeat a command that gets the same answer, as in the paper."""


def model_options(command: F) -> F:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return endpoint_options(command)


_OPTIONS: Final = (
    click.option(
        "--dry-run",
        is_flag=True,
        help="A scripted model in the place of --model: no key and no cost; its figures mean nothing.",
    ),
    click.option(
        "--repeats",
        type=click.IntRange(min=0),
        help=f"With a model, end a try when a command was repeated this often in a row with the same answer; "
        f"{REPEATS} by default, as in the paper, 0 for never.",
    ),
)


def model_of(options: Mapping[str, Any]) -> ChatModel | None:
    """Return the model that the options name; None for the offline player.

    Raises :class:`~jeeves_reflexion.ConfigurationError` for options that don't go together.
    """
    if options["dry_run"]:
        if options["model"] or options["base_url"]:
            raise ConfigurationError("--dry-run plays a scripted model: leave --model and --base-url out")
        return dry_run_model()
    model = named_model(options)
    if model is None and options["repeats"] is not None:
        raise ConfigurationError("--repeats goes with --model or --dry-run")
    return model


def repeats_of(options: Mapping[str, Any], model: ChatModel | None) -> int | None:
    """Return how many repeats end a try; None for no such end."""
    if model is None:
        return None
    asked = options["repeats"]
    return REPEATS if asked is None else asked or None
