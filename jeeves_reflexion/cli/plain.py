"""Values of the framework as plain JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from jeeves_reflexion.types import JSON, RunResult


def as_json(value: object) -> JSON:
    """Return dataclasses, mappings and collections as JSON objects and lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(map(str, value))
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def result_as_json(result: RunResult, place: str | None, namespace: str) -> JSON:
    """Return a run's result: what matters first, then every trial whole."""
    best = result.best
    return {
        "run_id": result.run_id,
        "passed": result.passed,
        "stop_reason": result.stop_reason,
        "detail": result.detail,
        "escalated": result.escalated,
        "score": result.score,
        "output": result.text,
        "best_attempt": best.number if best else None,
        "attempts": len(result.trials),
        "seconds": result.seconds,
        "usage": {**_object(result.usage), "total": as_json(result.total_usage)},
        "lessons": as_json(result.lessons),
        "store": None if place is None else {"place": place, "namespace": namespace},
        "task": as_json(result.task.public()),
        "trials": as_json(result.trials),
    }


def _object(usage: Mapping[Any, Any]) -> dict[str, JSON]:
    return {str(role): as_json(spent) for role, spent in usage.items()}
