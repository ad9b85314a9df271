"""What of a text reaches a terminal, and values as JSON."""

import json
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jeeves_reflexion import Attempt, RunResult, Step, Task, Trial, Usage
from jeeves_reflexion.cli.run import result_document
from jeeves_reflexion.cli.screen import plain, visible
from jeeves_reflexion.types import Evaluation


@given(st.text(alphabet=st.characters() | st.sampled_from("\x1b[]\x07\x9b\\;m0")))
@example("\x1b\x1b[31m[31m")
@example("\x1b]0;never closed")
@example("\x1b[\x1b[2J2J")
def test_nothing_that_a_terminal_would_obey_is_visible(text):
    shown = visible(text)
    assert not any(unicodedata.category(c) in {"Cc", "Cs"} and c not in "\n\t" for c in shown)
    shown.encode("utf-8")


@given(st.text(alphabet=st.characters(exclude_categories=["C"]) | st.sampled_from("\n\t")))
def test_ordinary_text_stays_as_it_is(text):
    assert visible(text) == text


def test_sequences_go_whole():
    assert visible("\x1b[1;31mred\x1b[0m") == "red"
    assert visible("\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\") == "link"
    assert visible("one\r\ntwo\rthree") == "one\ntwothree"


def test_a_result_is_json_without_its_reference():
    trial = Trial(
        1,
        Attempt("4", steps=(Step("think"),), metadata={"reward": 1}),
        Evaluation(0.5, quotes_gold=frozenset({"issues"})),
        usage={"agent": Usage(1, 2, 3)},
    )
    task = Task("2 + 2?", reference="gold")
    result = RunResult("r", task, (trial,), "max_attempts", {"agent": Usage(1, 2, 3, None)}, 1.5)
    text = json.dumps(result_document(result, None, "default"), default=plain)
    assert "gold" not in text.replace("quotes_gold", "")
    assert json.loads(text)["escalated"] is False
    assert json.loads(text)["usage"]["total"]["cost_usd"] is None
    assert json.loads(text)["trials"][0]["evaluation"]["quotes_gold"] == ["issues"]


def test_a_result_without_trials_is_json_too():
    result = RunResult("r", Task("x"), (), "budget", {}, 0.0)
    assert json.loads(json.dumps(result_document(result, "/p", "ns"), default=plain))["best_attempt"] is None


def test_what_has_no_form_in_json_is_named():
    with pytest.raises(TypeError, match="complex"):
        json.dumps({"a": [1j]}, default=plain)
