"""Filters as SQL on a real server, held against the filter language in Python."""

import json
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vectorstores import InvalidFilterError
from vectorstores.filters import parse

psycopg = pytest.importorskip("psycopg")
from vectorstores.postgres.filters import column_json, compile_filter, value_json  # noqa: E402

LONG = "ä" * 900
EXTREMES = [
    2**53 + 1,
    float(2**53),
    2**63 - 1,
    -(2**63),
    float(2**63),
    1e308,
    -1e308,
    5e-324,
    1.7976931348623157e308,
]
NUMBERS = st.sampled_from(
    [0, 1, 2, -1, 1.0, 0.5, -0.0, 0.1, -0.1, 1e16, 10**16 + 1, 1e22, 123456789.125, 2.0**-1000, *EXTREMES]
) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = ["", "a", "b", "aa", "B", "1", "true", "null", "ä", "z", "\uffff", "\U0001f600"]
STRINGS = st.sampled_from([*PLAIN, "'", '"', "\\", "%s", "a\x01", "\x7f", LONG, LONG + "a"])
WITH_NUL = st.sampled_from(["\0", "a\0", "a\0b", "\0a", LONG + "\0"])
SCALARS = st.none() | st.booleans() | NUMBERS | STRINGS
KEYS = st.sampled_from(["a", "b", "c", "a.b", "'; --", "", "ключ", "%s", "?"])
COLUMNS = {"a": "k1", "b": "k2", "": "k3"}
PART_KEYS = st.sampled_from(["a", "b", "$sha256"])


def values(scalars):
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PART_KEYS, inner, max_size=2),
        max_leaves=4,
    )


STORED = values(SCALARS)
ASKED = values(SCALARS | WITH_NUL)
METADATA = st.dictionaries(KEYS, STORED, max_size=5)
OPERATORS = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne"]), ASKED),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(ASKED, max_size=3)),
    st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), NUMBERS | STRINGS | WITH_NUL),
    st.tuples(st.just("$exists"), st.booleans()),
).map(lambda pair: dict([pair]))
ASKED_KEYS = KEYS | st.just("a\0")
FILTERS = st.recursive(
    st.dictionaries(ASKED_KEYS, OPERATORS | SCALARS | st.lists(SCALARS, max_size=2), max_size=2),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["$and", "$or"]), st.lists(inner, max_size=3)).map(
            lambda pair: dict([pair])
        ),
        inner.map(lambda part: {"$not": part}),
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def connection(postgres_dsn):
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute("CREATE TEMP TABLE rows (n int, facts jsonb, k1 jsonb, k2 jsonb, k3 jsonb)")
        yield connection


def insert(connection, rows: Sequence[Mapping]) -> None:
    connection.execute("TRUNCATE rows")
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO rows VALUES (%s, %s, %s, %s, %s)",
            [
                (n, value_json(row), *(column_json(row[key]) if key in row else None for key in COLUMNS))
                for n, row in enumerate(rows)
            ],
        )


def admitted(connection, filter, columns) -> list[int]:
    where = compile_filter(parse(filter), columns)
    query = b"SELECT n, " + where.sql + b", NOT " + where.sql + b" FROM rows ORDER BY n"
    found = connection.execute(query, where.parameters * 2).fetchall()
    assert all(yes is not no and None not in (yes, no) for _, yes, no in found), "the expression can be NULL"
    return [n for n, yes, _ in found if yes]


@given(rows=st.lists(METADATA, min_size=1, max_size=12), filters=st.lists(FILTERS, min_size=1, max_size=12))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_sql_admits_what_the_filter_matches(connection, rows, filters):
    # A value of the filter is often a value of a row: else hardly anything would ever be equal.
    filters = filters + [{key: {"$eq": value}} for row in rows[:4] for key, value in row.items()]
    filters += [{key: {"$nin": [value, "a"]}} for row in rows[:4] for key, value in row.items()]
    insert(connection, rows)
    for filter in filters:
        node = parse(filter)
        expected = [n for n, row in enumerate(rows) if node.matches(row)]
        assert admitted(connection, filter, {}) == expected
        assert admitted(connection, filter, COLUMNS) == expected


@given(numbers=st.lists(NUMBERS | st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=12))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_numbers_stand_in_the_order_of_python(connection, numbers):
    insert(connection, [{"a": number, "c": [number]} for number in numbers])
    for bound in numbers:
        for order in ("$gt", "$gte", "$lt", "$lte", "$eq", "$ne"):
            expected = [
                n for n, number in enumerate(numbers) if parse({"a": {order: bound}}).matches({"a": number})
            ]
            for columns in ({}, COLUMNS):
                assert admitted(connection, {"a": {order: bound}}, columns) == expected
        equal = [n for n, number in enumerate(numbers) if number == bound]
        assert admitted(connection, {"c": [bound]}, {}) == equal


def test_a_value_too_long_for_an_index_fits_and_is_found(connection):
    values = [LONG, [0.5] * 300, {"x": LONG}, list(range(500)), "b" * 1_000_000, [[]] * 100, 1e308]
    values += [json.loads(column_json(LONG))]  # poses as the first
    connection.execute("CREATE TEMP TABLE indexed (namespace text, k1 jsonb)")
    connection.execute("CREATE INDEX ON indexed (namespace, k1)")
    for value in values:
        connection.execute("INSERT INTO indexed VALUES (%s, %s)", ("n" * 500, column_json(value)))
    insert(connection, [{"a": value} for value in values])
    for stands_for_it in ('{"$sha256": ""}', '{"$sha256": "0123"}'):  # the second as in earlier versions
        connection.execute("UPDATE rows SET k1 = %s WHERE k1 ? '$sha256'", (stands_for_it,))
        for n, value in enumerate(values):
            assert admitted(connection, {"a": {"$eq": value}}, COLUMNS) == [n]
            assert admitted(connection, {"a": {"$in": [value, 1e308]}}, COLUMNS) == sorted({n, 6})
        assert admitted(connection, {"a": {"$gt": "b"}}, COLUMNS) == [0, 4]
        assert admitted(connection, {"a": {"$gt": "c"}}, COLUMNS) == [0]


@pytest.mark.parametrize("filter", [{"a": "x7"}, {"a": {"$in": ["x7", "x8"]}}])
def test_equality_on_a_declared_key_is_served_by_its_index(connection, filter):
    connection.execute("DROP TABLE IF EXISTS many")
    connection.execute("CREATE TEMP TABLE many (namespace text, facts jsonb, k1 jsonb)")
    connection.execute(
        "INSERT INTO many SELECT 'n', '{}', to_jsonb('x' || i) FROM generate_series(1, 5000) AS i"
    )
    connection.execute("CREATE INDEX many_by_k1 ON many (namespace, k1); ANALYZE many")
    where = compile_filter(parse(filter), COLUMNS)
    query = b"EXPLAIN SELECT 1 FROM many WHERE namespace = 'n' AND " + where.sql
    plan = "\n".join(line for (line,) in connection.execute(query, where.parameters))
    assert "many_by_k1" in plan
    assert "k1 =" in plan.split("Index Cond:")[1]


def test_keys_and_values_are_never_text_of_the_statement(connection):
    hostile = "x'); DROP TABLE rows; --"
    filter = {hostile: hostile, "a": {"$gt": hostile}, "$not": {hostile: {"$exists": False}}}
    where = compile_filter(parse(filter), COLUMNS)
    assert b"DROP" not in where.sql
    assert hostile in where.parameters
    insert(connection, [{hostile: hostile, "a": hostile + "!"}])
    assert admitted(connection, filter, COLUMNS) == [0]


def test_a_filter_of_too_many_conditions_is_refused(connection):
    many = [{"c": n} for n in range(15_001)]
    with pytest.raises(InvalidFilterError, match="30,002 conditions"):
        compile_filter(parse({"$or": many}), {})
    insert(connection, [{"c": 7}, {"c": -1}])
    assert admitted(connection, {"c": {"$in": list(range(100_000))}}, {}) == [0]
    assert admitted(connection, {"$or": many[:5000]}, {}) == [0]
