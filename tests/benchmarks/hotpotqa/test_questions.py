"""Files of questions, and what is wrong with them."""

import json

import pytest
from tables import table

from benchmarks.hotpotqa.failures import QuestionFileError
from benchmarks.hotpotqa.questions import load_questions, paragraphs_of

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


def test_entities_are_resolved_and_supporting_paragraphs_found(questions):
    pages = paragraphs_of(questions, supporting=True)
    assert [page.title for page in pages["q-company"]] == ["Gordon & Reed"]
    assert pages["q-company"][0].text == "Gordon & Reed is a company that Una Holm founded in 1912."
    assert len(paragraphs_of(questions)["q-company"]) == 5


@table(
    ("content", "said"),
    [
        ("", "holds no question"),
        ("{", "line 1: not JSON"),
        ("[1]", "question 1: a question must be a JSON object"),
        (json.dumps({**GOOD, "_id": ""}), "no _id"),
        (json.dumps({"_id": "a", "question": "Who?"}), "no answer; the official test file has no answers"),
        (json.dumps({**GOOD, "question": " "}), "the question is empty"),
        (json.dumps({**GOOD, "context": [["T", "text"]]}), r"context must be a list of \[title"),
        (json.dumps({**GOOD, "context": {"title": []}}), "context must be a list, not dict"),
        (json.dumps({**GOOD, "supporting_facts": [["T"]]}), "supporting_facts must be a list of"),
        ("\n".join([json.dumps(GOOD)] * 2), "two questions of the id 'a'"),
    ],
)
def test_a_file_that_cant_be_used_is_refused_with_the_place(tmp_path, content, said):
    path = tmp_path / "questions"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(QuestionFileError, match=said):
        load_questions(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(QuestionFileError, match=r"nowhere\.json can't be read"):
        load_questions(tmp_path / "nowhere.json")


def test_the_shared_sample_is_read_whole(sample):
    assert len(sample) == 100
    assert all(len(question.pages) == 10 for question in sample)
    assert sum(question.kind == "comparison" for question in sample) == 15
    titles = {page.title for question in sample for page in question.pages}
    assert all(set(question.supporting) <= titles for question in sample)
