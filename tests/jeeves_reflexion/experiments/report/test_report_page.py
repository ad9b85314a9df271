"""The page: nothing that a model says becomes markup, and nothing comes from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_results import a_lesson, a_task, results

from jeeves_reflexion import Attempt, Evaluation, EvaluationError, Recall, RecalledLesson, Step, Task, Trial
from jeeves_reflexion.experiments import Results, Tried
from jeeves_reflexion.experiments.report import make_report, page
from jeeves_reflexion.types import Reflection

VOID = {"meta", "input", "br"}
HEAD = {"html", "head", "meta", "title", "style", "body", "header", "main", "nav", "section", "a"}
TEXT = {
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "p",
    "div",
    "span",
    "b",
    "i",
    "ul",
    "ol",
    "li",
    "pre",
    "details",
    "summary",
}
TABLES = {"table", "thead", "tbody", "tr", "th", "td", "fieldset", "legend", "input", "label"}
PICTURES = {
    "figure",
    "figcaption",
    "svg",
    "desc",
    "text",
    "line",
    "polyline",
    "polygon",
    "circle",
    "rect",
    "path",
}
KNOWN = HEAD | TEXT | TABLES | PICTURES


class Reader(HTMLParser):
    """Reads a page as a browser would: elements, attributes and text; fails where elements are not nested."""

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.texts = [], [], [], []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)


def said_everywhere(told):
    """Results in which every text that comes from a model or a user is the same."""
    task = Task(told if told.strip() else "x", id=told or "x", kind=told)
    lesson = RecalledLesson(a_lesson(a_task(0), 1, told), 0.5, told)
    verdict = Evaluation(0.0, False, told, {told: 0.5}, (told,), (told,), (EvaluationError(told, told),))
    trial = Trial(
        1,
        Attempt(told, (Step(told, told, told),), error=told, interrupted=told),
        verdict,
        Recall("r", "t", (lesson,)),
        reflection=Reflection(told, fields={told: told}),
        problems=(told,),
    )
    rows = [Tried("selective", 0, task, trial, scored=verdict)]
    return Results((task,), ("selective",), (0,), 1, rows, told, judged_by="self", scored=True)


def written(made, title="T"):
    return page(make_report(made, title=title))


HARMFUL = [
    "<script>alert(1)</script>",
    "</pre></details></title></style><img src=x onerror=alert(1)>",
    "\" onmouseover=alert(1) x='",
    "&lt;b&gt; &amp; &#60;script&#62;",
    "<!-- ]]> -->",
    "\x00\x1b[31m\ud800 \u202egnp",
    "javascript:alert(1)",
]


def test_no_text_of_a_model_becomes_markup():
    plain = Reader(written(said_everywhere("word"), "word"))
    for told in HARMFUL:
        harmful = Reader(written(said_everywhere(told), told))
        assert set(harmful.tags) <= KNOWN
        assert harmful.tags == plain.tags
        assert [name for name, _ in harmful.attributes] == [name for name, _ in plain.attributes]
        if told.isprintable():
            assert "".join(harmful.texts).count(told) >= 8
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]", "".join(harmful.texts))


@settings(deadline=None, max_examples=50)
@given(st.text(st.characters(), min_size=1, max_size=40))
def test_any_text_at_all_makes_a_page_that_is_nested_right(told):
    source = written(said_everywhere(told), told)
    assert set(Reader(source).tags) <= KNOWN
    source.encode("utf-8")


def test_the_page_loads_nothing_and_runs_nothing():
    source = written(results(6, ("react", "retry", "selective"), (0, 1), 3, 3, lift=True))
    reader = Reader(source)
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(reader.tags)
    assert not [
        name for name, _ in reader.attributes if name.startswith("on") or name in {"src", "style", "action"}
    ]
    assert all(value.startswith("#") for name, value in reader.attributes if name == "href")
    assert "url(" not in source
    assert "@import" not in source
    (policy,) = (value for name, value in reader.attributes if name == "content" and "default-src" in value)
    style = re.search("<style>(.*?)</style>", source, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'")


def test_ids_are_unique_and_links_lead_somewhere():
    reader = Reader(
        written(results(6, ("retry", "selective"), (0, 1), 3, 3, scored=True, judged_by="self", lift=True))
    )
    ids = [value for name, value in reader.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    targets = {
        value.removeprefix("#")
        for name, value in reader.attributes
        if name in {"href", "aria-labelledby", "for"}
    }
    assert targets <= set(ids)


def test_every_task_has_its_story():
    made = results(5, ("retry", "selective"), (0, 1), 3, 2, tokens=False)
    shown = "".join(Reader(written(made)).texts)
    for task in (*made.tasks, *made.held_out):
        assert task.prompt in shown
    assert shown.count("Trial ") == len(made.rows)
    assert shown.count("Lessons recalled") == sum(row.trial.recall is not None for row in made.rows)
    assert shown.count("Verdict of the oracle") == len(made.rows)
    assert "tokens unknown" in shown
    assert shown.count("Lesson written") == sum(row.trial.reflection is not None for row in made.rows)


def test_gold_is_not_on_the_page():
    task = Task("What is it?", id="t", reference="Cremorne Gardens")
    verdict = Evaluation(0.0, False, "expected Cremorne Gardens", issues=("not Cremorne Gardens",))
    made = Results((task,), ("retry",), (0,), 1, [Tried("retry", 0, task, Trial(1, Attempt("no"), verdict))])
    source = written(made)
    assert "Cremorne" not in source
    assert "expected [withheld]" in source


def test_secrets_are_not_on_the_page():
    key = "sk-" + "Ab3dEf6hIj9kLmN0pQr5TuVw" * 2
    source = written(said_everywhere(f"the key is {key}"))
    assert key not in source
    assert "[REDACTED:" in source


def test_curves_are_there_where_there_is_something_to_draw():
    full = written(results(6, ("retry", "selective"), (0,), 3, 3, lift=True))
    for title in ("Learning curves", "First tries"):
        assert f"<title>{title}</title>" in full
    assert "+15 points (-10 to +40; " in full, "the lift of a lesson with its interval"
    empty = Results((a_task(0),), ("retry",), (0,), 2)
    assert "<svg" not in written(empty)


def test_a_run_without_a_row_is_a_page_too():
    empty = Results((a_task(0),), ("retry", "selective"), (0,), 2, interrupted="the spending limit")
    shown = "".join(Reader(written(empty)).texts)
    assert "The run stopped before its end: the spending limit" in shown
    assert "not finished" in shown


def test_a_long_text_keeps_both_ends_and_says_how_much_is_gone():
    made = results(1, ("retry",), trials=1)
    told = "a" * 900 + "b" * 900
    row = made.rows[0]
    made.rows[0] = Tried(row.arm, row.seed, row.task, replace(row.trial, attempt=Attempt(told)))
    shown = "".join(Reader(written(made)).texts)
    assert f"{'a' * 533} [... 1000 characters cut ...] {'b' * 267}" in shown
