"""A few questions of our own, in the official form, and the shared sample where it is present."""

import json
from pathlib import Path

import pytest

from benchmarks.hotpotqa.questions import Question, load_questions

SAMPLE = Path(__file__).parents[4] / "shared" / "data" / "hotpotqa" / "sample_100.jsonl"

_HARBOUR = [
    "The Larkspur is a restaurant in the harbour of Tamsin.",
    " It was opened by Odile Marchetti, a chef.",
]
_CHEF = ["Odile Marchetti (born 3 March 1961) is a chef from Corvale, Ontario.", " She cooks fish."]
_OTHERS = [
    ["Tamsin", ["Tamsin is a town on a lake.", " Its mayor is Bram Holt."]],
    ["Lemon Tree (song)", ['"Lemon Tree" is a song.', " It was written in 1995."]],
    ["Gordon &amp; Reed", ["Gordon &amp; Reed is a company that Una Holm founded in 1912."]],
    ["Bram Holt", ["Bram Holt is a Dutch painter."]],
    ["Pia Lund", ["Pia Lund is a Danish painter."]],
]
ROWS = [
    {
        "_id": "q-year",
        "question": "In what year was the chef who opened The Larkspur born?",
        "answer": "1961",
        "type": "bridge",
        "level": "hard",
        "supporting_facts": [["The Larkspur", 1], ["Odile Marchetti", 0]],
        "context": [["The Larkspur", _HARBOUR], ["Odile Marchetti", _CHEF], *_OTHERS],
    },
    {
        "_id": "q-both",
        "question": "Are both Bram Holt and Pia Lund painters?",
        "answer": "yes",
        "type": "comparison",
        "level": "hard",
        "supporting_facts": [["Bram Holt", 0], ["Pia Lund", 0]],
        "context": _OTHERS,
    },
    {
        "_id": "q-company",
        "question": "In what year was Gordon & Reed founded?",
        "answer": "1912",
        "type": "bridge",
        "level": "hard",
        "supporting_facts": [["Gordon &amp; Reed", 0]],
        "context": _OTHERS,
    },
    {
        "_id": "q-same",
        "question": "Are Bram Holt and Pia Lund from the same country?",
        "answer": "no",
        "type": "comparison",
        "level": "hard",
        "supporting_facts": [["Bram Holt", 0], ["Pia Lund", 0]],
        "context": _OTHERS,
    },
]


@pytest.fixture
def official(tmp_path: Path) -> Path:
    """An official file: a JSON list."""
    path = tmp_path / "official.json"
    path.write_text(json.dumps(ROWS), encoding="utf-8")
    return path


@pytest.fixture
def questions(official: Path) -> list[Question]:
    """Its questions."""
    return load_questions(official)


@pytest.fixture(scope="session")
def sample() -> list[Question]:
    """The shared sample of 100 questions."""
    if not SAMPLE.is_file():
        pytest.skip(f"the sample of HotpotQA is not there: {SAMPLE}")
    return load_questions(SAMPLE)
