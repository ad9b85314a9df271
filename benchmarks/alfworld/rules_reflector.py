"""The offline reflector: rules that turn a trajectory into one sentence of advice.

It sees only what the player saw: the opening and the steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .goal import APPLIANCES, Goal, parse_goal
from .notebook import Notebook
from .observations import Thing
from .place_words import write_places

# With fewer than this many commands without effect, the lesson does not mention them.
_WASTEFUL_FROM = 3


@dataclass(frozen=True, slots=True)
class Findings:
    """What one attempt found out.

    Attributes:
        goal: what the game asked for.
        found: by kind of wanted thing, the things that were seen, each with its first place.
        noun: what was missing, `mug` or `other mug`.
        empty: the places that were looked into and held none of it.
        wasted: how many commands changed nothing.
    """

    goal: Goal
    found: dict[str, list[tuple[Thing, Thing]]]
    noun: str
    empty: list[Thing]
    wasted: int

    @classmethod
    def of(cls, opening: str, steps: Sequence[tuple[str, str, str]]) -> "Findings":
        """Read an attempt; raises as `reflect` does."""
        goal, book = parse_goal(opening), _replay(steps)
        found = _found(goal, book)
        missing = _missing(goal, found)
        noun = f"other {missing}" if found[missing] else missing
        return cls(goal, found, noun, _empty_places(missing, book), len(book.wasted))


def reflect(opening: str, steps: Sequence[tuple[str, str, str]], *, won: bool) -> str:
    """Return the lesson of one attempt, one sentence.

    Args:
        opening: the first text of the game.
        steps: thought, command and observation of each step.
        won: the attempt succeeded, so the sentence says what worked (`distil`).

    Raises:
        ValueError: there are no steps, or the opening can't be read.
    """
    if won:
        return distil(opening, steps)
    seen = Findings.of(opening, steps)
    sentence = f"To {seen.goal}, {_plan(seen.goal, seen.found)}"
    if seen.empty:
        sentence += f", because there was no {seen.noun} in {write_places(seen.empty)}"
    if seen.wasted >= _WASTEFUL_FROM:
        sentence += f"; {seen.wasted} commands changed nothing, so never repeat one that did"
    return sentence + "."


def distil(opening: str, steps: Sequence[tuple[str, str, str]]) -> str:
    """Return what worked in a successful attempt, one sentence. Raises as `reflect` does."""
    goal, book = parse_goal(opening), _replay(steps)
    return f"To {goal}, {_plan(goal, _found(goal, book))}: that took {len(steps)} steps."


def _replay(steps: Sequence[tuple[str, str, str]]) -> Notebook:
    if not steps:
        raise ValueError("an attempt without steps leaves nothing to reflect on")
    book = Notebook()
    for _, command, observation in steps:
        book.note(command, observation)
    return book


def _found(goal: Goal, book: Notebook) -> dict[str, list[tuple[Thing, Thing]]]:
    """Return where the wanted things were first seen, as many as the goal needs; things that were used come first."""
    used = book.treated | set(book.placed) | {book.holding}
    found: dict[str, list[tuple[Thing, Thing]]] = {}
    for kind in goal.wanted:
        seen = [(thing, place) for thing, place in book.first_seen.items() if thing.kind == kind]
        found[kind] = sorted(seen, key=lambda pair: pair[0] not in used)[: goal.count]
    return found


def _plan(goal: Goal, found: dict[str, list[tuple[Thing, Thing]]]) -> str:
    """Return what to do next time, in order, as far as it is known."""
    lamp = _lamp_words(goal, found)
    targets = found[goal.target]
    if not targets:
        begin = "begin with the places I did not reach"
        return f"{begin} and then {lamp}" if goal.lamp is not None and found[goal.lamp] else begin
    parts = [_target_words(goal, targets)]
    if len(targets) < goal.count:
        parts.append("begin the search for a second one where I did not reach")
    if goal.treatment is not None:
        parts.append(f"{goal.treatment} it with the {APPLIANCES[goal.treatment]}")
    parts.append(lamp or f"put {'both' if goal.count == 2 else 'it'} {goal.where_to}")
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _target_words(goal: Goal, targets: Sequence[tuple[Thing, Thing]]) -> str:
    waiting = [
        (thing, place) for thing, place in targets if goal.count == 2 and place.kind == goal.destination
    ]
    fetched = [(thing, place) for thing, place in targets if (thing, place) not in waiting]
    words = ["take " + " and ".join(f"{thing} from {place}" for thing, place in fetched)] if fetched else []
    words += [f"remember that {thing} is in {place} already" for thing, place in waiting]
    return ", ".join(words)


def _lamp_words(goal: Goal, found: dict[str, list[tuple[Thing, Thing]]]) -> str:
    if goal.lamp is None:
        return ""
    if not found[goal.lamp]:
        return f"begin the search for the {goal.lamp} where I did not reach"
    light, place = found[goal.lamp][0]
    return f"use {light}, which is on {place}"


def _missing(goal: Goal, found: dict[str, list[tuple[Thing, Thing]]]) -> str:
    """Return the kind of thing about which the next attempt needs to know most."""
    if goal.lamp is not None and found[goal.target] and not found[goal.lamp]:
        return goal.lamp
    return goal.target


def _empty_places(missing: str, book: Notebook) -> list[Thing]:
    """Return the places that were looked into and held no thing of the missing kind at first."""
    holders = {place for thing, place in book.first_seen.items() if thing.kind == missing}
    return [place for place in book.contents if place not in holders]
