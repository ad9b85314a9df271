from __future__ import annotations

import importlib.util
from functools import partial

import pytest

from benchmarks.alfworld.pool import EnginePool
from benchmarks.alfworld.requirements import alfworld_files, require_engine
from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError


@pytest.mark.parametrize("python", [(3, 13), (3, 14)])
def test_a_python_that_textworld_does_not_work_on_is_refused(python):
    with pytest.raises(ConfigurationError, match=r"does not work on Python 3\.1[34].*3\.11 or 3\.12"):
        require_engine(python=python)


@pytest.mark.parametrize(
    ("missing", "needing"),
    [
        ("textworld", partial(require_engine, python=(3, 12))),
        ("fast_downward", partial(require_engine, python=(3, 12))),
        ("alfworld", alfworld_files),
    ],
)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, missing, needing):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else find(name))
    with pytest.raises(MissingDependencyError, match=r"pip install \"jeeves-reflexion\[alfworld\]\""):
        needing()


@pytest.mark.parametrize("arguments", [{"workers": 0}, {"workers": 1, "step_timeout": 0}])
def test_settings_that_cannot_work_are_refused(arguments):
    with pytest.raises(ConfigurationError, match="must be"):
        EnginePool(**arguments)
