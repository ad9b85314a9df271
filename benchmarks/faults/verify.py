"""Compares what a store holds after its writers died with what it must hold by their journals."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.faults.lane import LEDGER, NOTES, Item, Lane, Step, vector_of
from benchmarks.faults.writer import COUNTER, RACES, round_of
from vectorstores import JSON, Record, Store

Place: TypeAlias = tuple[str, str]
_PAGE: Final = 2000
_EXACT: Final = 0.9999


@dataclass(slots=True)
class Journals:
    """What the writers of a round noted: the results of acknowledged calls by lane, in order, and faults."""

    results: dict[str, list[tuple[str, JSON]]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def read(self, path: Path) -> None:
        """Add the lines of a journal; a line that was cut off acknowledges nothing."""
        for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
            if not line.endswith(b"\n"):
                continue
            entry = json.loads(line)
            results = self.results.setdefault(entry["lane"], [])
            if "step" in entry:
                results.append((entry["step"], entry["result"]))
            elif "wrong" in entry:
                self.wrong.append(entry["wrong"])
            elif "refused" in entry:
                self.refused.append(entry["refused"])


@dataclass(slots=True)
class Verdict:
    """Counts of items (chunks and records) and calls, and a note for each fault."""

    calls: int = 0
    """Acknowledged calls."""
    items: int = 0
    """Chunks and records that acknowledged calls left in the store."""
    kept: int = 0
    """Calls that were not acknowledged, but carried out whole."""
    lost: int = 0
    """Acknowledged items that are missing or different; deleted items that are back."""
    torn: int = 0
    """Calls that were carried out in part."""
    wrong: int = 0
    """Counts, scans and searches that contradict each other; searches that miss a chunk; wrong results of calls."""
    searched: int = 0
    """Chunks that were searched for by their vector."""
    notes: list[str] = field(default_factory=list)

    def add(self, other: Verdict) -> None:
        """Add another verdict."""
        for name in ("calls", "items", "kept", "lost", "torn", "wrong", "searched"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.notes += other.notes

    @property
    def faults(self) -> int:
        """The number of faults, which must be 0."""
        return self.lost + self.torn + self.wrong

    def say(self) -> str:
        """Return the counts and the first notes, for an assertion."""
        return (
            f"{self.calls} calls acknowledged, {self.items} items: {self.lost} lost, {self.torn} torn,"
            f" {self.wrong} wrong; {'; '.join(self.notes[:5])}"
        )


async def verify(
    store: Store, journals: Journals, settled: dict[Place, Item], seed: int, dim: int
) -> Verdict:
    """Compare a store with the journals of the last round, and with ``settled``, the items of earlier rounds.

    The items of this round are added to ``settled``.
    """
    found = await read_all(store)
    verdict = Verdict(wrong=len(journals.wrong), notes=list(journals.wrong))
    lanes = {
        name: _replay(verdict, Lane(name, seed, dim), results) for name, results in journals.results.items()
    }
    own = _by_lane(found, lanes)
    for name, (before, after) in lanes.items():
        verdict.calls += len(journals.results[name])
        verdict.items += len(before.items)
        settled |= _judge(verdict, name, own[name], (before, after))
    rest = {place: item for place, item in found.items() if not _belongs(place, lanes)}
    earlier = {place: item for place, item in settled.items() if not _belongs(place, lanes)}
    _lose(verdict, _different(rest, earlier), "from an earlier round")
    await _check_shared(store, verdict, journals, lanes)
    await _check_answers(store, verdict, found, [*_newest(own)], dim)
    return verdict


def _replay(verdict: Verdict, lane: Lane, results: list[tuple[str, JSON]]) -> tuple[Lane, Lane]:
    """Return the lane after its acknowledged steps, and after the step that may have been in progress."""
    for number, (kind, result) in enumerate(results, 1):
        step = lane.plan()
        if step.kind != kind:
            raise ValueError(f"step {number} of {lane.name} is {step.kind}, its journal says {kind}")
        lane.done(step)
        if not _expected(step, result):
            verdict.wrong += 1
            verdict.notes.append(f"{lane.name} was told {result} of step {number}, {kind}")
    further = copy.deepcopy(lane)
    further.done(further.plan())
    return lane, further


def _expected(step: Step, result: JSON) -> bool:
    """Return whether a call returned the right result; the winner of a race and the count are not known here."""
    if step.kind == "add":
        return result == len(step.chunks)
    if step.kind == "delete":
        return result == len(step.ids)
    if step.kind == "swap":
        return result == (step.version or 0) + 1
    return result is True if step.kind == "append" else True


def _lane_of(place: Place) -> str:
    return place[1].rpartition("/")[0]


def _belongs(place: Place, lanes: Mapping[str, object]) -> bool:
    return _lane_of(place) in lanes


def _by_lane(found: Mapping[Place, Item], lanes: Iterable[str]) -> dict[str, dict[Place, Item]]:
    own: dict[str, dict[Place, Item]] = {name: {} for name in lanes}
    for place, item in found.items():
        if _belongs(place, own):
            own[_lane_of(place)][place] = item
    return own


def _judge(
    verdict: Verdict, name: str, found: dict[Place, Item], lanes: tuple[Lane, Lane]
) -> dict[Place, Item]:
    before, after = lanes
    if found == before.items:
        return found
    if found == after.items:
        verdict.kept += 1
        return found
    neither = _different(found, before.items) & _different(found, after.items)
    _lose(verdict, neither, f"of {name}")
    if not neither:
        verdict.torn += 1
        verdict.notes.append(f"the last step of {name} was carried out in part")
    return found


def _different(one: Mapping[Place, Item], other: Mapping[Place, Item]) -> set[Place]:
    return {place for place in one.keys() | other.keys() if one.get(place) != other.get(place)}


def _lose(verdict: Verdict, places: set[Place], what: str) -> None:
    verdict.lost += len(places)
    if places:
        verdict.notes.append(f"{len(places)} items {what}, such as {min(places)}")


async def _check_shared(
    store: Store, verdict: Verdict, journals: Journals, lanes: Mapping[str, tuple[Lane, Lane]]
) -> None:
    """Check the counter and the races, which all lanes share."""
    counters = {record.key: record for record in await _records(store, COUNTER)}
    races = {record.key: record.value for record in await _records(store, RACES)}
    for record in counters.values():
        if not isinstance(record.value, dict) or record.version != sum(record.value.values()):
            verdict.lost += 1
            verdict.notes.append(f"the counter is at version {record.version}, its parts are {record.value}")
    for name, (before, after) in lanes.items():
        counter = counters.get(round_of(name))
        counts = counter.value if counter is not None and isinstance(counter.value, dict) else {}
        if counts.get(name, 0) not in (before.counted, after.counted):
            verdict.lost += 1
            verdict.notes.append(
                f"{name} counted {before.counted} times, the counter says {counts.get(name)}"
            )
        outcomes = [won for kind, won in journals.results[name] if kind == "race"]
        for number, won in enumerate(outcomes, 1):
            winner = races.get(f"{round_of(name)}/{number}")
            if winner is None or (winner == name) is not won:
                verdict.lost += 1
                verdict.notes.append(f"{name} was told {won} of race {number}, which {winner} won")


async def _check_answers(
    store: Store, verdict: Verdict, found: Mapping[Place, Item], ids: list[str], dim: int
) -> None:
    """Check that count, scan and search agree, and that each of ``ids`` is found by its vector."""
    contents = {place[1]: item[0] for place, item in found.items() if not place[0]}
    count = await store.count()
    if count != len(contents):
        verdict.wrong += 1
        verdict.notes.append(f"count says {count}, scan {len(contents)}")
    hits = await store.search(vector_of("anything", dim), k=len(contents) + 10)
    ids_found = Counter(hit.chunk.id for hit in hits)
    if ids_found != Counter(contents.keys()):
        verdict.wrong += 1
        verdict.notes.append(f"scan says {len(contents)}, a search for all found {len(ids_found)}")
    for id in ids:
        verdict.searched += 1
        hits = await store.search(vector_of(contents[id], dim), k=1)
        if [hit.chunk.content for hit in hits if hit.score > _EXACT] != [contents[id]]:
            verdict.wrong += 1
            best = f"{hits[0].chunk.id} at {hits[0].score:.4f}" if hits else "nothing"
            verdict.notes.append(f"{id} is not found by its vector, but {best}")


def _newest(own: Mapping[str, Mapping[Place, Item]], most: int = 30) -> Iterable[str]:
    for items in own.values():
        yield from [key for collection, key in items if not collection][-most:]


async def read_all(store: Store) -> dict[Place, Item]:
    """Read all chunks and records of the lanes."""
    found: dict[Place, Item] = {}
    after: str | None = None
    while True:
        page = await store.scan(after=after, limit=_PAGE)
        found |= {("", chunk.id): (chunk.content, dict(chunk.metadata)) for chunk in page.chunks}
        after = page.next
        if after is None:
            break
    for collection in (LEDGER, NOTES):
        for record in await _records(store, collection):
            found[collection, record.key] = (str(record.version), record.value)
    return found


async def _records(store: Store, collection: str) -> list[Record]:
    records: list[Record] = []
    after: str | None = None
    while True:
        page = await store.scan_records(collection, after=after, limit=_PAGE)
        records += page.records
        after = page.next
        if after is None:
            return records
