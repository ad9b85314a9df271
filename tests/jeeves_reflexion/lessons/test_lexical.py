"""Finding lessons by the words of their tasks."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jeeves_reflexion import LessonSettings, Provenance, Reflection, Task, VectorLessonStore
from jeeves_reflexion.lessons import lexical
from jeeves_reflexion.lessons.curator import Curator
from jeeves_reflexion.lessons.lexical import K1, B, WordIndex
from jeeves_reflexion.lessons.recalling import Picking
from jeeves_reflexion.lessons.telling import Telling
from vectorstores import HashingEmbedder, open_store
from vectorstores.base import Chunk, Page

SOURCE = Provenance("run", 1, 0.0)
TEXTS = {"a": "clean my mug", "b": "heat my mug mug", "c": "open that small E1234 drawer", "d": "the"}


def index(texts):
    found = WordIndex()
    for name, text in texts.items():
        found.put(name, text)
    return found


def test_the_scores_are_those_of_the_formula():
    mean = (3 + 4 + 4 + 0) / 4
    rarity = math.log(1 + (4 - 2 + 0.5) / (2 + 0.5))

    def part(count, length):
        return rarity * count * (K1 + 1) / (count + K1 * (1 - B + B * length / mean))

    assert index(TEXTS).search("my mug", k=9) == [
        ("b", pytest.approx(part(1, 4) + part(2, 4))),
        ("a", pytest.approx(2 * part(1, 3))),
    ]


def test_a_rare_word_outweighs_common_ones():
    assert index(TEXTS).search("mug e1234", k=1)[0][0] == "c"
    assert index(TEXTS).search("nothing known", k=3) == []
    assert WordIndex().search("anything", k=3) == []


def test_words_that_say_nothing_are_not_looked_for():
    texts = {"lamp": "examine the book with the lamp", "plate": "put a clean plate in a cabinet"}
    assert [name for name, _ in index(texts).search("put the clean plate on the shelf", k=9)] == ["plate"]
    assert index(texts).search("The the with", k=9) == []


words = st.text("bcd ", max_size=12)


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.one_of(st.none(), words)), max_size=12), words)
def test_what_was_put_and_removed_leaves_no_trace(changes, query):
    found, kept = WordIndex(), {}
    for name, text in changes:
        if text is None:
            found.remove(name)
            kept.pop(name, None)
        else:
            found.put(name, text)
            kept[name] = text
    assert len(found) == len(kept)
    assert dict(found.search(query, k=9)) == pytest.approx(dict(index(kept).search(query, k=9)))


@pytest.mark.anyio
async def test_hybrid_recall_brings_in_what_only_words_find_and_never_what_is_gone(make, monkeypatch):
    monkeypatch.setattr(lexical, "MAX_AGE", 0.0)
    named = Task("look up the invoice of customer zx81 among everything that was ever sent to anybody")
    query = Task("zebra crossing zx81 number")

    async def found(lessons):
        recall = await lessons.recall(query, k=1)
        return [item.lesson.id for item in (*recall.offered, *recall.left_out)]

    settings = {"min_similarity": -1.0}
    async with make(picking=Picking("hybrid", max_likeness=1.0), **settings) as lessons:
        lesson = await lessons.record(named, Reflection("Search the archive first."), provenance=SOURCE)
        for n in range(30):
            task = Task(f"zebra crossing number {n}")
            await lessons.record(task, Reflection(f"Look left and right {n} times."), provenance=SOURCE)
        assert lesson.id in await found(lessons)
        assert lesson.id not in await found(
            VectorLessonStore(lessons.store, settings=LessonSettings(**settings))
        )
        await Curator(lessons.shelf).retire(lesson.id, reason="old")
        assert lesson.id not in await found(lessons)


@pytest.mark.anyio
async def test_the_words_of_what_is_written_before_the_first_search_or_after_it_are_searched(make):
    async with make() as lessons:
        words = lexical.WordSearch(lessons.store)
        early = await lessons.record(Task("mend the zx81"), Reflection("Search first."), provenance=SOURCE)
        assert list(await words.search("zx81", k=3)) == [early.id]
        telling = Telling(lessons.store, words)
        await telling.add(
            [Chunk("Sell it.", id="late:0", metadata={"face": 0, "lesson_id": "late"}, embed_text="zx99")]
        )
        assert list(await words.search("zx99", k=3)) == ["late"]
        assert await telling.count() == await lessons.store.count()


class OutOfOrder:
    """What a database shows of rows whose places are given before their transactions end."""

    def __init__(self, places):
        self.visible = set(places)
        self.read = 0

    async def scan(self, *, filter, after, limit):
        rest = sorted(place for place in self.visible if place > int(after or 0))
        chunks = tuple(Chunk(f"word{place}", str(place), {"face": 0}) for place in rest[:limit])
        self.read += len(chunks)
        return Page(chunks, str(rest[limit - 1]) if len(rest) > limit else None)


@pytest.mark.anyio
async def test_a_lesson_that_others_see_late_is_found(monkeypatch):
    monkeypatch.setattr(lexical, "MAX_AGE", 0.0)
    monkeypatch.setattr(lexical, "_PAGE", 10)
    rows = OutOfOrder(set(range(1, 101)) - {7, 95})
    words = lexical.WordSearch(rows)
    assert list(await words.search("word100", k=3)) == ["100"]
    before = rows.read
    rows.visible |= {7, 95}
    assert list(await words.search("word95", k=3)) == ["95"]
    assert rows.read - before <= 30
    assert await words.search("word7", k=3) == {}
    monkeypatch.setattr(lexical, "REREAD", 0.0)
    assert list(await words.search("word7", k=3)) == ["7"]


NEAR = [Task(f"zebra crossing number {n}") for n in range(12)]


async def _by_words(lessons, query):
    recall = await lessons.recall(Task(query), k=1)
    return [item.lesson.id for item in (*recall.offered, *recall.left_out) if "by its words" in item.reason]


def _hybrid(make, **settings):
    return make(picking=Picking("hybrid", max_likeness=1.0), min_similarity=-1.0, merging=None, **settings)


@pytest.mark.anyio
async def test_what_a_curator_lets_in_takes_back_or_throws_away_is_known_to_the_next_search(make):
    async with _hybrid(make, propose=True) as lessons:
        curator = Curator(lessons.shelf)
        lesson = await lessons.record(Task("mend the zx81"), Reflection("Search first."), provenance=SOURCE)
        words = lessons._words
        assert await words.search("zx81", k=3) == {}
        await curator.approve(lesson.id)
        assert list(await words.search("zx81", k=3)) == [lesson.id]
        await curator.retire(lesson.id, reason="old")
        assert await words.search("zx81", k=3) == {}
        await curator.restore(lesson.id)
        assert list(await words.search("zx81", k=3)) == [lesson.id]
        await lessons.forget(lesson.id)
        assert await words.search("zx81", k=3) == {}


@pytest.mark.anyio
async def test_what_is_just_stored_is_found_by_its_words_without_reading_the_library_again(make, monkeypatch):
    async with _hybrid(make) as lessons:
        for task in NEAR:
            await lessons.record(task, Reflection(f"Look twice at {task.prompt}."), provenance=SOURCE)
        assert await _by_words(lessons, "the zx81") == []
        monkeypatch.setattr(lexical, "MAX_AGE", 3600.0)
        other = VectorLessonStore(lessons.store, settings=lessons.settings)
        read = []
        scan = lessons.store.scan

        async def counted(**asked):
            read.append(asked)
            return await scan(**asked)

        monkeypatch.setattr(lessons.store, "scan", counted)
        mine = await lessons.record(Task("mend the zx81"), Reflection("Search first."), provenance=SOURCE)
        assert await _by_words(lessons, "the zx81") == [mine.id]
        his = await other.record(Task("sell the zx99"), Reflection("Ask for more."), provenance=SOURCE)
        assert await _by_words(lessons, "the zx99") == [his.id]
        assert read == []


@pytest.mark.anyio
async def test_a_lesson_is_found_by_the_words_of_each_task_that_it_is_recalled_for(make):
    async with make(picking=Picking("hybrid", max_likeness=1.0), min_similarity=-1.0) as lessons:
        advice = Reflection("Search the archive first.")
        first = await lessons.record(Task("mend the zx81 of the neighbour"), advice, provenance=SOURCE)
        for task in NEAR:
            await lessons.record(task, Reflection(f"Look twice at {task.prompt}."), provenance=SOURCE)
        before = lexical.WordSearch(lessons.store)
        assert list(await lessons._words.search("amiga", k=3)) == []
        copied = Task("sell a broken amiga at the fair")
        again = await lessons.record(copied, advice, provenance=Provenance("other", 1, 0.0))
        assert again.id == first.id
        for words in (lessons._words, before):
            assert list(await words.search("amiga", k=3)) == [first.id]
            assert list(await words.search("zx81", k=3)) == [first.id]
            assert list(await words.search("zx81 or amiga", k=1)) == [first.id]


@pytest.mark.anyio
async def test_on_a_server_too_what_a_curator_lets_in_is_found_by_its_words_at_once(
    postgres_database, anyio_backend, monkeypatch
):
    if anyio_backend != "asyncio":
        pytest.skip("psycopg runs on asyncio only")
    monkeypatch.setattr(lexical, "MAX_AGE", 3600.0)
    store = open_store(postgres_database, embedder=HashingEmbedder(), namespace="tests")
    settings = LessonSettings(picking=Picking("hybrid"), min_similarity=-1.0, propose=True)
    async with VectorLessonStore(store, settings=settings) as lessons:
        lesson = await lessons.record(Task("mend the zx81"), Reflection("Search first."), provenance=SOURCE)
        assert await _by_words(lessons, "the zx81") == []
        await Curator(lessons.shelf).approve(lesson.id)
        assert await _by_words(lessons, "the zx81") == [lesson.id]
