"""The filter language: what it means, and what it refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from vectorstores import InvalidFilterError
from vectorstores.filters import MISSING, And, Exists, Not, OneOf, Or, Ordered, canonical, parse

MATCHES = [
    ({}, {}),
    ({}, {"a": 1}),
    ({"a": 1}, {"a": 1.0}),
    ({"a": 1.0}, {"a": 1}),
    ({"a": True}, {"a": True}),
    ({"a": None}, {"a": None}),
    ({"a": [1, {"b": None}]}, {"a": [1.0, {"b": None}]}),
    ({"a": {"$eq": {"b": 1, "c": 2}}}, {"a": {"c": 2, "b": 1}}),
    ({"a.b": 1}, {"a.b": 1}),
    ({"a": {"$ne": 1}}, {"a": True}),
    ({"a": {"$ne": 1}}, {}),
    ({"a": {"$ne": None}}, {}),
    ({"a": {"$in": [3, "x", None]}}, {"a": None}),
    ({"a": {"$nin": [1]}}, {}),
    ({"a": {"$nin": []}}, {"a": 1}),
    ({"a": {"$gt": 1, "$lt": 2}}, {"a": 1.5}),
    ({"a": {"$gte": 2**53 + 1}}, {"a": 2**53 + 1}),
    ({"a": {"$lt": "b"}}, {"a": "B"}),
    ({"a": {"$gt": "z"}}, {"a": "ä"}),
    ({"a": {"$exists": True}}, {"a": None}),
    ({"a": {"$exists": False}}, {"b": 1}),
    ({"$and": []}, {}),
    ({"$not": {"$or": []}}, {}),
    ({"$or": [{"a": 1}, {"b": 2}], "c": 3}, {"b": 2, "c": 3}),
    ({"$not": {"a": {"$gt": 1}}}, {"a": "x"}),
]
DIFFERS = [
    ({"a": 1}, {"a": True}),
    ({"a": True}, {"a": 1}),
    ({"a": 0}, {"a": False}),
    ({"a": 1}, {"a": "1"}),
    ({"a": None}, {}),
    ({"a": 0}, {"a": None}),
    ({"a": []}, {"a": {}}),
    ({"a": [1]}, {"a": [True]}),
    ({"a": 1}, {"a": [1]}),
    ({"a.b": 1}, {"a": {"b": 1}}),
    ({"a": {"$in": []}}, {"a": 1}),
    ({"a": {"$in": [True]}}, {"a": 1}),
    ({"a": {"$nin": [1]}}, {"a": 1.0}),
    ({"a": {"$gt": 0}}, {"a": True}),
    ({"a": {"$gt": 0}}, {"a": "1"}),
    ({"a": {"$gt": 0}}, {}),
    ({"a": {"$lt": 1}}, {"a": None}),
    ({"a": {"$gt": float(2**53)}}, {"a": 2**53}),
    ({"a": {"$gte": ""}}, {"a": 1}),
    ({"a": {}.fromkeys(["$gt"], 1)}, {"a": 1}),
    ({"$or": []}, {"a": 1}),
    ({"$and": [{"a": 1}, {"a": 2}]}, {"a": 1}),
    ({"a": 1, "b": 2}, {"a": 1}),
    ({"$not": {}}, {"a": 1}),
]


@table(("filter", "metadata"), MATCHES)
def test_matches(filter, metadata):
    assert parse(filter).matches(metadata)


@table(("filter", "metadata"), DIFFERS)
def test_differs(filter, metadata):
    assert not parse(filter).matches(metadata)


@table(
    ("filter", "place"),
    [
        ([], "filter: expected a mapping"),
        ({1: 2}, "filter: a key must be a string"),
        ({"$nor": []}, r"filter\.\$nor: unknown operator"),
        ({"$gt": 1}, r"filter\.\$gt: unknown operator"),
        ({"$and": {}}, r"filter\.\$and: expected a list"),
        ({"$or": [{"a": 1}, {"b": {"$like": "x"}}]}, r"filter\.\$or\[1\]\.b\.\$like: unknown operator"),
        ({"$or": ["a"]}, r"filter\.\$or\[0\]: expected a mapping"),
        ({"$not": [{"a": 1}]}, r"filter\.\$not: expected a mapping"),
        ({"a": {}}, r"filter\.a: an empty object"),
        ({"a": {"b": 1}}, r"filter\.a\.b: unknown operator"),
        ({"a": {"$in": "abc"}}, r"filter\.a\.\$in: expected a list"),
        ({"a": {"$in": [float("nan")]}}, r"filter\.a\.\$in\[0\]: nan"),
        ({"a": {"$gt": None}}, r"filter\.a\.\$gt: only numbers and strings"),
        ({"a": {"$gt": True}}, r"filter\.a\.\$gt: only numbers and strings"),
        ({"a": {"$exists": 1}}, r"filter\.a\.\$exists: expected true or false"),
        ({"a": 2**63}, r"filter\.a: .* 64 bits"),
        ({"a": {1, 2}}, r"filter\.a: set is not JSON"),
        ({"a": b"x"}, r"filter\.a: bytes is not JSON"),
        ({"a": "\ud800"}, r"filter\.a: .*surrogate"),
        ({"\ud800": 1}, "surrogate"),
        ({"a": {"$eq": {1: 2}}}, r"filter\.a\.\$eq: a key"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(filter, place):
    with pytest.raises(InvalidFilterError, match=place):
        parse(filter)


def test_a_filter_of_many_levels_is_refused():
    filter = {"a": 1}
    for _ in range(5000):
        filter = {"$not": filter}
    with pytest.raises(InvalidFilterError, match="nested more than"):
        parse(filter)


def test_the_tree_is_plain_to_compile():
    tree = parse({"a": {"$gte": 1, "$ne": "x"}, "$or": [{"b": {"$exists": False}}, {"$not": {"c": None}}]})
    assert tree == And(
        (
            Ordered("a", "$gte", 1),
            Not(OneOf("a", ("x",))),
            Or((Not(Exists("b")), Not(OneOf("c", (None,))))),
        )
    )


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([-1.0, 0.0, 0.5, 1.0])
    | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
)


@given(JSON, JSON)
def test_ne_is_the_negation_of_eq_and_in_the_union_of_both(one, other):
    for metadata in ({"a": one}, {}):
        assert parse({"a": {"$eq": other}}).matches(metadata) is not parse({"a": {"$ne": other}}).matches(
            metadata
        )
        either = {"a": {"$in": [one, other]}}
        assert parse(either).matches(metadata) == any(
            parse({"a": {"$eq": value}}).matches(metadata) for value in (one, other)
        )


@given(JSON)
def test_a_value_equals_itself_and_nothing_is_missing(value):
    assert parse({"a": {"$eq": value}}).matches({"a": value})
    assert canonical(value) != canonical(MISSING)
