"""The 37 behaviours of an existing implementation, as data; where we differ from one, the reason stands here."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tables import table

HERE = Path(__file__).parent
FOLDER = Path(os.environ.get("JEEVES_REQUIREMENTS", HERE.parents[3] / "shared" / "requirements"))
CASES = FOLDER / "behaviours_edge_agent.yaml"

DIFFERENT = {
    "B02": "a corrected output is what is judged next; there the corrector's output was thrown away",
    "B04": "a corrected output is what is judged next, so the generator writes the first output alone",
    "B20": "a step without a model asks the run's own model; no model of any vendor is guessed",
}

if not CASES.is_file():
    pytest.skip(
        f"the cases are not here: {CASES} (or name their folder in JEEVES_REQUIREMENTS)",
        allow_module_level=True,
    )


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


RUNNER = _module(FOLDER / "run_cases.py")
ADAPTER = _module(HERE / "adapter.py").adapter()
DOCUMENT = yaml.safe_load(CASES.read_text(encoding="utf-8"))


def problems(case: dict[str, Any]) -> list[str]:
    return RUNNER.match(case["expect"], getattr(ADAPTER, f"op_{case['op']}")(case["input"]))


@table("case", DOCUMENT["cases"])
def test_it_behaves_as_the_case_says_or_differs_for_a_reason(case):
    found = problems(case)
    if case["id"] in DIFFERENT:
        assert found, f"{case['id']} is listed as different and is not"
    else:
        assert not found


def test_all_cases_are_there():
    assert len(DOCUMENT["cases"]) == 37


def case(name: str) -> dict[str, Any]:
    return next(case for case in DOCUMENT["cases"] if case["id"] == name)


def test_b02_the_corrected_output_is_judged_and_the_generator_not_asked_again():
    seen = ADAPTER.op_loop(case("B02")["input"])
    assert [entry["output"] for entry in seen["result"]["reflection_history"]] == [
        {"name": "Bo"},
        {"hint": "add email"},
        {"hint": "add email"},
    ]
    assert seen["calls"] == {"generator": 1, "corrector": 2}


def test_b04_there_is_no_correction_after_the_last_attempt():
    assert ADAPTER.op_loop(case("B04")["input"])["calls"] == {"generator": 1, "corrector": 2}


def test_b20_the_model_of_the_state_and_of_the_step_are_asked():
    seen = ADAPTER.op_evaluate(case("B20")["input"])
    assert [prompt["model"] for prompt in seen["prompts"]] == ["default", "m9", "mm"]
