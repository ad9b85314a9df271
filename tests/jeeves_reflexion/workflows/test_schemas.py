"""The schema evaluator: drafts, errors, texts that hold JSON, and references."""

from __future__ import annotations

import json

import pytest
from tables import table

from jeeves_reflexion import ConfigurationError
from jeeves_reflexion.workflows import SchemaCheck
from jeeves_reflexion.workflows.schemas import MAX_ERRORS

PROFILE = {
    "type": "object",
    "required": ["name", "email"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "email": {"type": "string", "pattern": "^[^@]+@[^@]+$"},
        "kind": {"enum": ["person", "company"]},
        "tags": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    },
}


def test_errors_say_where_what_and_what_to_do():
    verdict = SchemaCheck(PROFILE)({"name": "", "kind": "persn", "tags": [{"n": 1}, {"n": "many"}]})
    assert verdict.error_list() == [
        {"path": "", "message": "'email' is a required property", "suggestion": "Add the field 'email'."},
        {
            "path": "kind",
            "message": "'persn' is not one of ['person', 'company']",
            "suggestion": "Use one of ['person', 'company'] in 'kind'.",
        },
        {
            "path": "name",
            "message": "'' should be non-empty",
            "suggestion": "Write 'name' so that it has the minLength 1.",
        },
        {
            "path": "tags.1.n",
            "message": "'many' is not of type 'integer'",
            "suggestion": "Write 'tags.1.n' as integer.",
        },
    ]
    assert (verdict.valid, verdict.score, len(verdict.suggestions)) == (False, 0.0, 4)


GOOD = {"name": "Ada", "email": "a@b.co"}


def test_json_is_found_in_a_text_and_is_then_the_output():
    for text in [
        json.dumps(GOOD),
        f"```json\n{json.dumps(GOOD, indent=2)}\n```",
        f"```\n{json.dumps(GOOD)}\n```\n",
        f"Sure, here it is:\n\n```json\n{json.dumps(GOOD)}\n```\nAnything else?",
        f"The profile: {json.dumps(GOOD)}.",
    ]:
        verdict = SchemaCheck(PROFILE)(text)
        assert (verdict.valid, verdict.output) == (True, GOOD)


def test_a_text_without_json_is_no_object_and_is_kept():
    for text in ["no json", "{'name'; 'Ada'}", '{"name": "Ada", "email": NaN}', "", "{" * 5000, '"x"']:
        verdict = SchemaCheck(PROFILE)(text)
        assert (verdict.valid, verdict.output) == (False, text)
        assert "is not of type 'object'" in verdict.errors[0].message
        assert len(verdict.errors[0].message) <= 300


def test_a_schema_that_asks_for_a_string_gets_the_text_as_it_is():
    for schema in (
        {"type": "string"},
        {"$ref": "#/$defs/s", "$defs": {"s": {"type": "string"}}},
        {"type": ["string", "object"]},
    ):
        assert SchemaCheck(schema)('{"a": 1}').output == '{"a": 1}'


def test_an_array_in_a_fence_is_found_too():
    for text in [
        "```json\n[1, 2]\n```",
        "```javascript\n[1, 2]```",
        'Here are both, not only {"one": 1}:\n```json\n[1, 2]\n```\nAnything else?',
    ]:
        assert SchemaCheck({"type": "array"})(text).output == [1, 2]


def test_the_draft_is_the_one_that_the_schema_names():
    for schema, value, valid in [
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 3, "exclusiveMinimum": True},
            3,
            False,
        ),
        ({"$schema": "http://json-schema.org/draft-06/schema#", "exclusiveMinimum": 3}, 3, False),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]},
            ["x"],
            False,
        ),
        (
            {"$schema": "https://json-schema.org/draft/2019-09/schema", "items": [{"type": "integer"}]},
            ["x"],
            False,
        ),
        (
            {"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [{"type": "integer"}]},
            ["x"],
            False,
        ),
        ({"prefixItems": [{"type": "integer"}]}, ["x"], False),
        ({"type": "string", "format": "email"}, "nobody", False),
        ({"type": "string", "format": "date"}, "2024-13-01", False),
        (True, 1, True),
        (False, 1, False),
    ]:
        assert SchemaCheck(schema)(value).valid is valid


@table(
    ("schema", "said"),
    [
        ({"type": "objekt"}, "not a valid JSON Schema at type"),
        ({"properties": {"a": {"minimum": "3"}}}, "not a valid JSON Schema at properties.a.minimum"),
        ({"pattern": "("}, "not a valid JSON Schema at pattern"),
        ({"$schema": "https://example.com/own"}, "not a known draft"),
        ({"$schema": 5}, "not a known draft"),
        (["type"], "must be a mapping"),
        ({"$ref": "#/$defs/none"}, "'#/$defs/none' leads nowhere"),
        ({"properties": {"enum": {"$ref": "#/none"}}}, "leads nowhere"),
        ({"$ref": "https://example.com/s.json"}, "not a URL"),
    ],
)
def test_a_bad_schema_is_a_configuration_error_before_anything_is_judged(schema, said):
    with pytest.raises(ConfigurationError) as error:
        SchemaCheck(schema)
    assert said in str(error.value)


def test_many_errors_are_cut_and_endless_references_end():
    assert len(SchemaCheck({"items": {"type": "integer"}})(["x"] * 10_000).errors) == MAX_ERRORS
    assert "refers to itself" in SchemaCheck({"$ref": "#"})(1).errors[0].message


# -- files


@pytest.fixture
def base(tmp_path):
    folder = tmp_path / "base"
    (folder / "parts").mkdir(parents=True)
    (tmp_path / "secret.json").write_text('{"const": "secret"}')
    (folder / "parts" / "person.yaml").write_text(
        "type: object\nproperties:\n  age: {$ref: 'ages.json#/$defs/age'}\n  home: {$ref: ../home.json}\n"
    )
    (folder / "parts" / "ages.json").write_text('{"$defs": {"age": {"type": "integer"}}}')
    (folder / "home.json").write_text('{"type": "string", "minLength": 2}')
    (folder / "out.json").write_text('{"$ref": "parts/../../secret.json"}')
    (folder / "broken.json").write_text('{"type": 3}')
    (folder / "link.json").symlink_to(tmp_path / "secret.json")
    (folder / "way").symlink_to(tmp_path, target_is_directory=True)
    return folder


def test_files_refer_to_files_relative_to_themselves(base):
    check = SchemaCheck({"$ref": "parts/person.yaml"}, base)
    assert check({"age": "41", "home": "Oslo"}).output == {"age": 41, "home": "Oslo"}
    assert [error.path for error in check({"age": 1, "home": "x"}).errors] == ["home"]


def test_an_identity_changes_nothing_about_files_and_its_own_parts(base):
    schema = {
        "$id": "https://example.com/root.json",
        "$defs": {"own": {"$id": "own.json", "type": "integer"}},
        "properties": {"a": {"$ref": "own.json"}, "b": {"$ref": "home.json"}},
    }
    assert [error.path for error in SchemaCheck(schema, base)({"a": "x", "b": "x"}).errors] == ["a", "b"]


@table(
    "reference",
    [
        "../secret.json",
        "parts/../../secret.json",
        "%2e%2e/secret.json",
        "link.json",
        "way/secret.json",
        "out.json",
        "/etc/passwd",
        "//host/secret.json",
        "file:///etc/passwd",
        "http://127.0.0.1:1/x.json",
        "..\\secret.json",
        "parts/none.json",
        "parts/ages.txt",
        "parts",
        "broken.json",
        "home.json\0.yaml",
        "http://[",
    ],
)
def test_no_reference_gets_out_of_the_base_folder(base, reference):
    with pytest.raises(ConfigurationError) as error:
        SchemaCheck({"$ref": reference}, base)
    assert "$ref" in str(error.value) or "broken.json" in str(error.value)


def test_a_file_without_a_folder_and_a_name_that_is_nearly_right(base):
    with pytest.raises(ConfigurationError, match="give base_folder"):
        SchemaCheck({"$ref": "home.json"})
    with pytest.raises(ConfigurationError, match=r"did you mean 'home\.json'"):
        SchemaCheck({"$ref": "hame.json"}, base)


def test_the_specification_itself_may_be_referred_to():
    check = SchemaCheck({"$ref": "https://json-schema.org/draft/2020-12/schema"})
    assert check({"type": "object"}).valid
    assert not check({"type": 3}).valid
