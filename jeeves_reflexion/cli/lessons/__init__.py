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
from jeeves_reflexion.cli.lessons.files import export, import_, sync
from jeeves_reflexion.cli.lessons.look import add, count, forget, history, list_, search, show
from jeeves_reflexion.cli.lessons.reembed import reembed
from jeeves_reflexion.cli.lessons.stats import stats
from jeeves_reflexion.cli.lessons.why import why
from jeeves_reflexion.cli.options import Sections

_SECTIONS = {
    "See": (list_, search, show, history, why, stats, count),
    "Decide": (review, approve, reject, outcome),
    "Change": (add, edit, retire, restore, merge, rollback, consolidate, forget),
    "Move": (export, import_, sync, reembed),
}


@click.group(cls=Sections, sections=_SECTIONS)
def lessons() -> None:
    """See, judge, change and carry what was learned.

    IDs may be cut short to four characters. What changes many lessons shows them first, and asks; --dry-run only shows.
    Every change but "forget" goes into the lesson's history and can be taken back with "rollback". Only
    "import --create" and "add --create" make a store.
    """
