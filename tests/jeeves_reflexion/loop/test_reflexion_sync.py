"""The one synchronous way in."""

from __future__ import annotations

import pytest
from loop_parts import Grader, Player, Writer

from jeeves_reflexion import ConfigurationError, Reflexion


def test_run_sync_returns_what_run_does():
    result = Reflexion(Player("a", "b"), evaluator=Grader(0.0, 1.0), reflector=Writer()).run_sync("x")
    assert (result.output, result.stop_reason) == ("b", "passed")


def test_run_sync_raises_what_run_does():
    agent = Player(ConfigurationError("no such tool"))
    with pytest.raises(ConfigurationError, match="no such tool"):
        Reflexion(agent, evaluator=Grader(0.0), reflector=Writer()).run_sync("x")
