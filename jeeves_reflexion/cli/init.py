"""``jeeves-reflexion init``: write a small project that runs as it is, ready for the user's own agent."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

import click

from jeeves_reflexion.cli import options
from jeeves_reflexion.errors import ConfigurationError

_AGENT: Final = '''\
"""An agent and a reflector, without a model: replace them with yours."""

import re
from datetime import datetime


def answer(prompt: str) -> str:
    """Answer a prompt, which includes the lessons recalled for the task."""
    date = datetime.strptime(re.search(r"\\d+ [A-Z][a-z]+ \\d{4}", prompt)[0], "%d %B %Y")
    return f"{date:%Y-%m-%d}" if "ISO 8601" in prompt else f"{date:%d/%m/%Y}"


def reflect(task, trials) -> str:
    """Say in one sentence what to do differently; called after a failed attempt."""
    return "Write dates in ISO 8601, year first."
'''
_TASKS: Final = """\
{"prompt": "Write this date as the archive wants it: 3 May 2026.", "reference": "2026-05-03"}
{"prompt": "Write this date as the archive wants it: 17 June 2025.", "reference": "2025-06-17"}
{"prompt": "Write this date as the archive wants it: 9 October 2024.", "reference": "2024-10-09"}
{"prompt": "Write this date as the archive wants it: 28 February 2023.", "reference": "2023-02-28"}
{"prompt": "Write this date as the archive wants it: 1 August 2022.", "reference": "2022-08-01"}
{"prompt": "Write this date as the archive wants it: 30 November 2021.", "reference": "2021-11-30"}
"""
_COMMAND: Final = "jeeves-reflexion bench tasks.jsonl --agent my_agent:answer --reflector my_agent:reflect"


@click.command()
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
@options.debug
def init(folder: Path) -> None:
    """Write a small project into FOLDER: an agent, a reflector and tasks.

    It runs as it is, without a model or a network. Existing files are never changed.
    """
    files = {folder / "my_agent.py": _AGENT, folder / "tasks.jsonl": _TASKS}
    for path in files:
        if path.exists():
            raise ConfigurationError(f"{path} exists already: choose another folder, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
        click.echo(f"wrote {path}")
    click.echo("\nNow see whether lessons help this agent:")
    click.echo(f"  {_COMMAND}" if folder == Path() else f"  cd {shlex.quote(str(folder))}\n  {_COMMAND}")
