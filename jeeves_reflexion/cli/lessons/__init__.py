"""``jeeves-reflexion lessons``: look at, review, change and exchange lessons."""

import click

from jeeves_reflexion.cli.lessons.consolidate import consolidate
from jeeves_reflexion.cli.lessons.curation import (
    approve,
    edit,
    merge,
    outcome,
    reject,
    restore,
    retire,
    review,
    rollback,
)
from jeeves_reflexion.cli.lessons.exchange import export, import_, pull, push, sync
from jeeves_reflexion.cli.lessons.look import add, forget, list_, reembed, search, show
from jeeves_reflexion.cli.lessons.usage import policy, stats, why


@click.group()
def lessons() -> None:
    """Look at, review, change and exchange lessons.

    The first four characters of an ID are enough. A command that changes many lessons shows them and asks first;
    --dry-run only shows them. Every change but "forget" goes into the lesson's history, and "rollback" undoes it. With
    --create, "add", "import", "push", "pull" and "sync" create a missing store.
    """


for _command in (
    *(list_, search, show, why, stats, policy),
    *(review, approve, reject, outcome),
    *(add, edit, retire, restore, merge, rollback, consolidate, forget),
    *(export, import_, push, pull, sync, reembed),
):
    lessons.add_command(_command)
