"""Criteria: their fields, their sets, and what is refused."""

from __future__ import annotations

import dataclasses

import pytest
from tables import table

from jeeves_reflexion import ConfigurationError
from jeeves_reflexion.evaluators import (
    CRITERIA_SETS,
    DESCRIPTIONS,
    GENERAL_CRITERIA,
    QualityCriterion,
    as_criteria,
    criteria_for,
)


def test_e05_fields_and_defaults_are_those_of_the_seed():
    criterion = QualityCriterion("tact", "how tactful it is")
    assert dataclasses.astuple(criterion) == ("tact", "how tactful it is", 1.0, 0.7, "llm", {})
    assert [field.name for field in dataclasses.fields(criterion)] == [
        "name",
        "description",
        "weight",
        "threshold",
        "evaluator",
        "evaluator_config",
    ]
    criterion.weight = 2.0
    assert criterion.weight == 2.0


def test_a_description_defaults_to_that_of_the_built_in_and_else_to_the_name():
    assert QualityCriterion(name="correctness", weight=2.0).description == DESCRIPTIONS["correctness"]
    assert QualityCriterion("rhyme").description == "rhyme"


def test_c18_collections_are_not_shared():
    one, other = QualityCriterion("a"), QualityCriterion("b")
    one.evaluator_config["pattern"] = "x"
    assert other.evaluator_config == {}
    first, second = criteria_for("code"), criteria_for("code")
    first[0].evaluator_config["pattern"] = "x"
    first.pop()
    assert second == criteria_for("code")


@table(
    ("kind", "names"),
    [
        ("code", ["correctness", "efficiency", "readability", "edge_cases"]),
        ("writing", ["clarity", "coherence", "completeness", "tone"]),
        ("analysis", ["accuracy", "depth", "relevance", "objectivity"]),
        ("reasoning", ["logical_validity", "completeness", "clarity"]),
    ],
)
def test_e07_the_sets_are_those_of_the_seed_in_its_order(kind, names):
    assert list(CRITERIA_SETS[kind]) == names
    assert [criterion.name for criterion in criteria_for(kind)] == names
    assert all(name in DESCRIPTIONS for name in names)


@table(
    ("kind", "known"),
    [
        ("code_generation", "code"),
        ("Code Generation", "code"),
        ("codeGeneration", "code"),
        ("python-script", "code"),
        ("essay", "writing"),
        ("market research", "analysis"),
        ("MATH", "reasoning"),
        ("decoder", None),
        ("encode", None),
        ("", None),
        (None, None),
    ],
)
def test_a_kind_is_known_by_its_first_known_word(kind, known):
    names = tuple(criterion.name for criterion in criteria_for(kind))
    assert names == (CRITERIA_SETS[known] if known else GENERAL_CRITERIA)


def test_c03_criteria_are_names_or_objects_or_none():
    given = QualityCriterion("rhyme", weight=2.0)
    assert as_criteria(["clarity", given]) == [QualityCriterion("clarity"), given]
    assert as_criteria(None, "writing") == criteria_for("writing")
    assert as_criteria(("tone",), "code") == [QualityCriterion("tone")]


@table(
    ("criteria", "problem"),
    [
        ([], "empty"),
        ("clarity", "list of names"),
        ({"clarity"}, "list of names"),
        ([7], "name or a QualityCriterion"),
        (["clarity", QualityCriterion("clarity")], "two criteria are called clarity"),
    ],
)
def test_what_is_no_list_of_criteria_is_refused(criteria, problem):
    with pytest.raises(ConfigurationError, match=problem):
        as_criteria(criteria)


@table(
    ("arguments", "problem"),
    [
        ({"name": ""}, "needs a name"),
        ({"name": "  "}, "needs a name"),
        ({"name": None}, "needs a name"),
        ({"weight": 0}, "weight"),
        ({"weight": -1.0}, "weight"),
        ({"weight": float("inf")}, "weight"),
        ({"weight": float("nan")}, "weight"),
        ({"weight": 10**400}, "weight"),
        ({"weight": True}, "weight"),
        ({"weight": "2"}, "weight"),
        ({"threshold": 1.1}, "threshold"),
        ({"threshold": -0.1}, "threshold"),
        ({"threshold": float("nan")}, "threshold"),
        ({"threshold": "high"}, "threshold"),
        ({"evaluator": "magic"}, "one of llm, regex, function, compare"),
        ({"evaluator_config": []}, "must be a dict"),
    ],
)
def test_e06_what_cannot_be_a_criterion_is_refused_and_named(arguments, problem):
    with pytest.raises(ConfigurationError, match=problem):
        QualityCriterion(**{"name": "a", **arguments})
