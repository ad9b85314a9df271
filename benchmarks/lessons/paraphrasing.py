"""Says lessons in other words: choices of wording, phrases before and after, contractions, typing errors, casing.

The wordings are in ``paraphrases.txt``, written by hand: other orders of the clauses, active and passive, synonyms;
``paraphrases_heldout.txt`` has more, which nothing was adjusted to.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_BEFORE: Final = (
    "Next time, ",
    "In the next attempt, ",
    "In future trials, ",
    "Lesson learned: ",
    "Note to self: ",
    "From now on, ",
    "When trying this task again, ",
    "Reminder: ",
    "Tip: ",
    "The key insight is this: ",
    "For tasks like this one, ",
    "Please ",
)
_AFTER: Final = (
    ", as this attempt showed",
    "; that is what went wrong",
    ", otherwise the attempt fails",
    " (my mistake in this trial)",
    " next time",
    " in such tasks",
    ", which I failed to do",
    ", because it matters here",
)
_SHORT: Final = (("do not", "don't"), ("should not", "shouldn't"), ("must not", "mustn't"))
_WORD: Final = re.compile(r"[a-zA-Z]{5,}")
_BESIDE: Final = dict(
    zip(
        "abcdefghijklmnopqrstuvwxyz",
        [
            "sqz",
            "vgn",
            "xvd",
            "sfe",
            "wrd",
            "dgr",
            "fhv",
            "gjn",
            "uok",
            "hku",
            "jlm",
            "kop",
            "njk",
            "bmh",
            "ilp",
            "ol",
            "wa",
            "etf",
            "adw",
            "ryg",
            "yij",
            "cbf",
            "qes",
            "zcs",
            "tuh",
            "asx",
        ],
        strict=True,
    )
)
"""Letters that lie beside each letter on a keyboard."""
_SPARED: Final = frozenset({"never", "avoid", "opening"})
"""Not mistyped: another word, or the word's absence, would say something else."""


@dataclass(frozen=True, slots=True)
class BaseLesson:
    """A lesson by the ways to say it, and its task by the ways to ask it; ``name`` is ``group/member``."""

    name: str
    task: str
    wordings: tuple[str, ...]

    @property
    def group(self) -> str:
        """Lessons of a group are near-pairs: alike, and not to be merged."""
        return self.name.split("/")[0]


@dataclass(frozen=True, slots=True)
class Saying:
    """One paraphrase: which lesson it says, and the task that it is said of."""

    lesson: int
    text: str
    task: str


@dataclass(frozen=True, slots=True)
class Noise:
    """How often a saying gets something besides its wording; the defaults are those of the report."""

    before: float = 0.5
    after: float = 0.3
    typo: float = 0.2
    casing: float = 0.15
    short: float = 0.5


def base_lessons(corpus: str = "paraphrases") -> tuple[BaseLesson, ...]:
    """Read the base lessons of a corpus."""
    found = []
    text = Path(__file__).with_name(f"{corpus}.txt").read_text(encoding="utf-8")
    for block in re.split(r"(?m)^= ", text)[1:]:
        head, *lines = block.strip().splitlines()
        name, task = head.split(" | ")
        found.append(
            BaseLesson(name, task, tuple(line for line in lines if line and not line.startswith("#")))
        )
    return tuple(found)


def sayings(n: int, *, seed: int, noise: Noise | None = None, corpus: str = "paraphrases") -> list[Saying]:
    """Return ``n`` distinct paraphrases, as many of each base lesson as of any other, in a random order."""
    noise = noise or Noise()
    rng = random.Random(seed)
    bases = base_lessons(corpus)
    found: list[Saying] = []
    for number, base in enumerate(bases):
        wanted = n // len(bases) + (number < n % len(bases))
        seen: set[str] = set()
        for _ in range(200 * wanted):
            if len(seen) == wanted:
                break
            text = _noisy(spin(rng.choice(base.wordings), rng), rng, noise)
            if text not in seen:
                seen.add(text)
                found.append(Saying(number, text, spin(base.task, rng)))
        if len(seen) < wanted:
            raise ValueError(f"{base.name} has fewer than {wanted} paraphrases; add wordings or noise")
    rng.shuffle(found)
    return found


def spin(text: str, rng: random.Random) -> str:
    """Choose among the alternatives in braces, the innermost first."""
    while "{" in text:
        text = re.sub(r"\{([^{}]*)\}", lambda found: rng.choice(found[1].split("|")), text, count=1)
    return text


def _noisy(text: str, rng: random.Random, noise: Noise) -> str:
    for whole, short in _SHORT:
        if whole in text.lower() and rng.random() < noise.short:
            text = re.sub(whole, short, text, flags=re.IGNORECASE)
            text = text[0].upper() + text[1:]
    if rng.random() < noise.after:
        text = f"{text.rstrip('.')}{rng.choice(_AFTER)}."
    if rng.random() < noise.before:
        capitals = text[:2].isupper()
        text = rng.choice(_BEFORE) + (text if capitals or rng.random() < 0.2 else text[0].lower() + text[1:])
    if rng.random() < noise.typo:
        text = _mistype(text, rng)
    if rng.random() < noise.casing:
        text = rng.choice((str.lower, str.upper, lambda t: t.rstrip("."), lambda t: t + "!"))(text)
    return text


def _mistype(text: str, rng: random.Random) -> str:
    words = [found for found in _WORD.finditer(text) if found[0].lower() not in _SPARED]
    if not words:
        return text
    chosen = rng.choice(words)
    wrong = rng.choice(list(_slips(chosen[0], rng)))
    return text[: chosen.start()] + wrong + text[chosen.end() :]


def _slips(word: str, rng: random.Random) -> Iterator[str]:
    at = rng.randrange(1, len(word) - 1)
    yield word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    yield word[:at] + word[at + 1 :]
    yield word[:at] + word[at] + word[at:]
    yield word[:at] + rng.choice(_BESIDE.get(word[at].lower(), "e")) + word[at + 1 :]
