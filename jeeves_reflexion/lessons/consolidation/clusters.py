"""Lessons in small groups that speak of the same thing, for consolidation to look at one group at a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.lessons.likeness.comparing import likeness
from jeeves_reflexion.lessons.likeness.sense import sense_of
from jeeves_reflexion.types import Lesson, Trust

LIKENESS: Final = 0.5
MOST: Final = 12
_RARE_WORDS: Final = 6
_WIDEST: Final = 40
"""Lessons that share a word with more others than this are compared with their neighbours in the list only."""


def clusters(
    lessons: Iterable[Lesson],
    *,
    alike: Callable[[str, str], float] = likeness,
    at_least: float = LIKENESS,
    most: int = MOST,
) -> list[tuple[Lesson, ...]]:
    """Group active lessons of one task kind and trust whose texts are alike; those like no other are left out.

    Lessons of different trust never share a group: what a stranger's lesson says, to rules or a model, changes no own.

    A group is connected by likeness of ``at_least`` (single link), and split where it has more than ``most``, those of
    the same task together. Only lessons that share one of their rarest words are compared, so that it stays quick for
    many thousands; the result depends on the lessons alone, not on their order.
    """
    if most < 2:
        raise ConfigurationError(f"most must be at least 2, not {most}")
    kinds: defaultdict[tuple[str, Trust], list[Lesson]] = defaultdict(list)
    for lesson in sorted(lessons, key=lambda lesson: lesson.id):
        if lesson.state == "active":
            kinds[lesson.task_kind or "", lesson.trust].append(lesson)
    found = []
    for kind in sorted(kinds):
        for group in _connected(kinds[kind], alike, at_least):
            # Together with those of the same task: merged, these need no more room than one of them.
            group.sort(key=lambda lesson: (lesson.task_excerpt, lesson.task_id, lesson.id))
            parts = [group[start : start + most] for start in range(0, len(group), most)]
            found += [tuple(part) for part in parts if len(part) > 1]
    return found


def _connected(
    lessons: Sequence[Lesson], alike: Callable[[str, str], float], at_least: float
) -> list[list[Lesson]]:
    parents = list(range(len(lessons)))

    def root(number: int) -> int:
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    for a, b in _candidates([lesson.text for lesson in lessons]):
        if root(a) != root(b) and alike(lessons[a].text, lessons[b].text) >= at_least:
            parents[max(root(a), root(b))] = min(root(a), root(b))
    groups: defaultdict[int, list[Lesson]] = defaultdict(list)
    for number, lesson in enumerate(lessons):
        groups[root(number)].append(lesson)
    return [groups[number] for number in sorted(groups)]


def _candidates(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Pairs that share one of the rarest words of both."""
    words = [frozenset(sense_of(text).words) for text in texts]
    spread = Counter(word for each in words for word in each)
    having: defaultdict[str, list[int]] = defaultdict(list)
    for number, each in enumerate(words):
        shared = sorted((word for word in each if spread[word] > 1), key=lambda word: (spread[word], word))
        for word in shared[:_RARE_WORDS]:
            having[word].append(number)
    for word in sorted(having):
        numbers = having[word]
        if len(numbers) <= _WIDEST:
            yield from combinations(numbers, 2)
        else:
            for start in range(len(numbers) - 1):
                yield from ((numbers[start], other) for other in numbers[start + 1 : start + _WIDEST])
