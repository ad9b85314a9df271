"""Where the benchmarks put what they found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any] | click.Command)


def out_option(files: str) -> Callable[[F], F]:
    """Return what adds ``--out`` to a command, the folder that ``files`` are written to."""

    def add(function: F) -> F:
        return click.option(
            "--out",
            type=click.Path(file_okay=False, path_type=Path),
            default=Path("docs/results"),
            show_default=True,
            help=f"Folder for {files}.",
        )(function)

    return add


def write_result(folder: Path, name: str, figures: object, page: str) -> None:
    """Write a page, and what it was made of as JSON beside it; the folder is made."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    (folder / f"{name}.md").write_text(page, encoding="utf-8")
