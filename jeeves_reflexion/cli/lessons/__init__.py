"""``jeeves-reflexion lessons``: see, judge, change and carry what was learned."""

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
    """See, judge, change and carry what was learned.

    IDs may be cut short to four characters. What changes many lessons shows them first, and asks; --dry-run only shows.
    Every change but "forget" goes into the lesson's history and can be taken back with "rollback". Only
    with --create do "add", "import", "push", "pull" and "sync" make a store.
    """


for _command in (
    *(list_, search, show, why, stats, policy),
    *(review, approve, reject, outcome),
    *(add, edit, retire, restore, merge, rollback, consolidate, forget),
    *(export, import_, push, pull, sync, reembed),
):
    lessons.add_command(_command)
