"""Constrained writing: a notice that must hold given words, counts, forms and an order."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from .problem import Problem, Requirement, State, broken_in, prompt_of, some_of

FAMILY = "writing"

_EVENTS = ("street concert", "book market", "repair evening", "garden walk", "chess night", "quiz evening")
_PLACES = ("town hall", "old library", "school yard", "boat house", "market square")
_OFFERS = ("soup", "bread", "lemonade", "pancakes", "apples", "tea", "cake", "chestnuts")
_THINGS = ("chairs", "umbrellas", "blankets", "lanterns", "cushions", "cups")
_FORBIDDEN = ("unique", "amazing", "unforgettable", "fantastic")
_FILLERS = ("Dogs stay at home.", "The doors open early.", "Help is welcome.")
_MONTHS = ("March", "April", "May", "June", "July")
_PADDING = (
    ", which everybody who was there in the years before will certainly remember with the greatest of pleasure and will"
    " surely want to see once more"
)
_SLACK = 8
_END = re.compile(r"[.!?](?=\s|$)")


@dataclass(frozen=True, slots=True)
class _Notice:
    """What a notice is about."""

    title: str
    event: str
    place: str
    offers: tuple[str, ...]
    things: tuple[str, ...]
    forbidden: str
    fillers: tuple[str, ...]
    day: int
    month: int
    cents: int

    def text(self, broken: frozenset[str]) -> str:
        """Write the notice, wrong in what is named."""
        offers = self.offers[:-1] if "words" in broken else self.offers
        first, second = self.things[::-1] if "order" in broken else self.things
        date = f"{self.day} {_MONTHS[self.month - 3]}" if "date" in broken else self.date
        sentences = [
            f"The {self.event} takes place in the {self.place}{_PADDING if 'length' in broken else ''}.",
            f"It begins on {date} after dark.",
            f"There will be {', '.join(offers)}.",
            f"Bring {first} and then {second}.",
            f"It is a {self.forbidden if 'forbidden' in broken else 'cheerful'} occasion.",
            f"Entry costs {4 if 'price' in broken else self.price} euros.",
            *self.fillers,
            *(["Children are welcome."] if "sentences" in broken else []),
            "We hope to see you." if "closing" in broken else "Will you come?",
        ]
        title = self.title if "title" in broken else self.title.upper()
        return f"{title}\n{' '.join(sentences)}"

    @property
    def date(self) -> str:
        return f"2025-{self.month:02}-{self.day:02}"

    @property
    def price(self) -> str:
        return f"4.{self.cents:02}"

    def pool(self) -> list[Requirement]:
        right = self.text(frozenset())
        most, count = len(right.split()) + _SLACK, len(_END.findall(_body(right)))
        first, second = self.things
        return [
            Requirement(
                "title",
                f"The first line is the title in capital letters: {self.title.upper()}",
                lambda text: text.strip().splitlines()[:1] == [self.title.upper()],
            ),
            Requirement(
                "words",
                f"It holds the words {', '.join(self.offers)}.",
                lambda text: all(_at(text, word) >= 0 for word in self.offers),
            ),
            Requirement(
                "order",
                f"It names {first} before {second}.",
                lambda text: 0 <= _at(text, first) < _at(text, second),
            ),
            Requirement(
                "forbidden",
                f"The word {self.forbidden} does not occur.",
                lambda text: bool(text.strip()) and _at(text, self.forbidden) < 0,
            ),
            Requirement(
                "length",
                f"It has at most {most} words, the title included.",
                lambda text: 0 < len(text.split()) <= most,
            ),
            Requirement(
                "sentences",
                f"Below the title it has exactly {count} sentences.",
                lambda text: len(_END.findall(_body(text))) == count,
            ),
            Requirement(
                "closing",
                "The last sentence is a question.",
                lambda text: text.rstrip().endswith("?"),
            ),
            Requirement("date", f"It gives the date as {self.date}.", lambda text: self.date in text),
            Requirement(
                "price",
                f"It gives the price with two decimals: {self.price} euros.",
                lambda text: f"{self.price} euro" in text,
            ),
        ]


def make(name: str, chance: random.Random) -> Problem:
    """Make a notice to write."""
    event = chance.choice(_EVENTS)
    first, second = chance.sample(_THINGS, 2)
    notice = _Notice(
        title=f"Come to the {event}",
        event=event,
        place=chance.choice(_PLACES),
        offers=tuple(chance.sample(_OFFERS, chance.randint(3, 5))),
        things=(first, second),
        forbidden=chance.choice(_FORBIDDEN),
        fillers=_FILLERS[: chance.randint(0, len(_FILLERS))],
        day=chance.randint(10, 28),
        month=chance.randint(3, 7),
        cents=chance.randint(10, 99),
    )
    requirements = some_of(notice.pool(), chance)
    opening = (
        f"Write a short notice about the {event} in the {notice.place} for the neighbours: one line with a title, and "
        f"below it one paragraph. Answer with the notice alone."
    )

    def write(state: State) -> str:
        return notice.text(broken_in(requirements, state))

    return Problem(name, FAMILY, prompt_of(opening, requirements), requirements, write)


def _body(text: str) -> str:
    return text.strip().partition("\n")[2]


def _at(text: str, word: str) -> int:
    match = re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)
    return -1 if match is None else match.start()
