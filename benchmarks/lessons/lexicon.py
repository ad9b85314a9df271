"""``python -m benchmarks.lessons.lexicon FOLDER``: makes the word list that typing errors are told by.

The lists are SCOWL's up to size 50, English, American and British, one word a line (Debian package ``scowl``, folder
``/usr/share/dict/scowl``). To be made again whenever :func:`jeeves_reflexion.lessons.likeness.wording.stem` changes.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from jeeves_reflexion.lessons.likeness.wording import stem

WORDS: Final = Path("jeeves_reflexion/lessons/likeness/words.txt")
_KINDS: Final = ("english", "american", "british")
_COMMON: Final = (10, 20, 35)
_RARE: Final = (40, 50)
_WORD: Final = re.compile("[a-z]{4,}")
_HEAD: Final = """\
# Stems of the words of English with four letters or more, so that a typing error can be told from a word: the common
# ones (sizes 10 to 35), then, after an empty line, the rarer ones (40 and 50).
# Made by "python -m benchmarks.lessons.lexicon" from SCOWL (Spell Checker Oriented Word Lists) 2020.12.07,
# English, American and British: http://wordlist.aspell.net
#
# Copyright 2000-2018 by Kevin Atkinson
# Permission to use, copy, modify, distribute and sell these word lists, the associated scripts, the output created
# from the scripts, and its documentation for any purpose is hereby granted without fee, provided that the above
# copyright notice appears in all copies and that both that copyright notice and this permission notice appear in
# supporting documentation. Kevin Atkinson makes no representations about the suitability of this array for any
# purpose. It is provided "as is" without express or implied warranty.
"""


def stems(words: Iterable[str]) -> set[str]:
    """Return the distinct stems of the words in lower case with four letters or more."""
    return {stem(word) for word in words if _WORD.fullmatch(word)}


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=WORDS, show_default=True)
def main(folder: Path, out: Path) -> None:
    """Write the stems of the words of the lists in FOLDER."""
    common, rare = (
        stems(
            word
            for kind in _KINDS
            for size in sizes
            for word in (folder / f"{kind}-words.{size}").read_text(encoding="latin-1").split()
        )
        for sizes in (_COMMON, _RARE)
    )
    parts = [textwrap.fill(" ".join(sorted(part)), 118) for part in (common, rare - common)]
    out.write_text(f"{_HEAD}{parts[0]}\n\n{parts[1]}\n", encoding="utf-8")
    click.echo(f"{len(common)} stems of common words and {len(rare - common)} of rarer ones in {out}")


if __name__ == "__main__":
    main()
