"""Files of questions, and what is wrong with them."""

import json

import pytest
from tables import table

from benchmarks.hotpotqa.questions import load_questions, paragraphs_of
from jeeves_reflexion import ConfigurationError

GOOD = {"_id": "a", "question": "Who?", "answer": "Ada", "context": [["T", ["One.", " Two."]]]}


def test_official_files_and_json_lines_hold_the_same_questions(official, questions, tmp_path):
    lines = tmp_path / "lines.jsonl"
    rows = json.loads(official.read_text(encoding="utf-8"))
    lines.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n", encoding="utf-8")
    assert load_questions(lines) == questions
    assert [question.id for question in questions] == ["q-year", "q-both", "q-company", "q-same"]


def test_a_text_may_hold_other_ends_of_lines(tmp_path):
    row = {"_id": "q", "question": "Who\u2028or\x85what?", "answer": "a"}
    (tmp_path / "q.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    assert [each.text for each in load_questions(tmp_path / "q.jsonl")] == [row["question"]]


def test_the_task_has_the_answer_as_its_reference_alone(questions):
    task = questions[0].task
    assert (task.id, task.kind, task.reference) == ("q-year", "bridge", "1961")
    assert "1961" not in repr(task.public())


def test_entities_are_resolved(questions):
    pages = paragraphs_of(questions)["q-company"]
    assert len(pages) == 5
    assert pages[2].text == "Gordon & Reed is a company that Una Holm founded in 1912."


@table(
    ("content", "said"),
    [
        ("", "is empty; expected a question"),
        ("{", "line 1: the line: Invalid JSON"),
        ("[1]", "line 1: the line: Input should be an object"),
        ("[1", "is no JSON list"),
        (json.dumps({**GOOD, "_id": ""}), "_id: String should have at least 1"),
        (json.dumps({"_id": "a", "question": "Who?"}), "answer: .*the official test file has no answers"),
        (json.dumps({**GOOD, "question": " "}), "question: String should match"),
        (json.dumps({**GOOD, "context": [["T", "text"]]}), "context.0.1: Input should be a valid array"),
        ("\n".join([json.dumps(GOOD)] * 2), "line 2: another question has the id 'a' already"),
    ],
)
def test_a_file_that_cant_be_used_is_refused_with_the_place(tmp_path, content, said):
    path = tmp_path / "questions"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=said):
        load_questions(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"nowhere\.json can't be read"):
        load_questions(tmp_path / "nowhere.json")


def test_the_shared_sample_is_read_whole(sample):
    assert len(sample) == 100
    assert all(len(question.pages) == 10 for question in sample)
    assert sum(question.kind == "comparison" for question in sample) == 15
