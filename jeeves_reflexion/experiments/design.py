"""What a run was asked to do, as it stands in its folder, and how another one differs from it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from jeeves_reflexion.experiments.plan import Plan, split_rule
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import JSON, Task

MAY_CHANGE: Final = frozenset({"workers", "max_cost_usd"})
"""What changes no result, and may differ when a run is resumed."""

_LIBRARIES: Final = (
    "jeeves-reflexion",
    "anyio",
    "numpy",
    "pydantic",
    "faiss-cpu",
    "onnxruntime",
    "sentence-transformers",
    "torch",
    "psycopg",
    "pgvector",
    "alfworld",
    "textworld",
)
_SHOWN: Final = 5


def versions() -> dict[str, JSON]:
    """Return the versions of Python, this package, and the libraries that results may depend on, where installed."""
    found: dict[str, JSON] = {"python": platform.python_version(), "platform": platform.platform()}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # an optional one: that it is not in the list says that it was not there
    return found


def design_of(plan: Plan, learning: Sequence[Task], held_out: Sequence[Task]) -> dict[str, JSON]:
    """Return a plan and its tasks as they are recorded; tasks by a digest of all that they hold."""
    return {
        "arms": list(plan.arms),
        "trials": plan.trials,
        "seeds": list(plan.seeds),
        "k": plan.k,
        "workers": plan.workers,
        "max_cost_usd": plan.max_cost_usd,
        "judged_by": plan.judged_by,
        "holdout": plan.holdout,
        "split_seed": plan.split_seed,
        "split_rule": split_rule(plan.holdout, plan.split_seed, len(learning), len(held_out)),
        "held_out": [redact(task.id) for task in held_out],
        "tasks": {redact(task.id): _digest(task) for task in (*learning, *held_out)},
    }


def differences(old: Mapping[str, Any], new: Mapping[str, Any], *, where: str = "") -> list[str]:
    """Return how one configuration differs from another, a line for each setting (``- old``, ``+ new``)."""
    lines = []
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if name in MAY_CHANGE or before == after:
            continue
        label = f"{where}{name}"
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            found = differences(before, after, where=f"{label}: ")
            lines += found if name != "tasks" else _tasks(before, after)
        else:
            lines.append(f"{label}: - {_short(before, old, name)}  + {_short(after, new, name)}")
    return lines


def _tasks(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    changed = [task for task in before if task in after and before[task] != after[task]]
    kinds = (
        ("no longer there", [task for task in before if task not in after]),
        ("new", [task for task in after if task not in before]),
        ("changed", changed),
    )
    found = [f"tasks: {len(ids)} {what}: {_some(ids)}" for what, ids in kinds if ids]
    return found or ["tasks: in another order"]


def _some(ids: Iterable[str]) -> str:
    ids = list(ids)
    return ", ".join(ids[:_SHOWN]) + (", ..." if len(ids) > _SHOWN else "")


def _short(value: object, source: Mapping[str, Any], name: str) -> str:
    if name not in source:
        return "(not set)"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:200] + " ..."


def _digest(task: Task) -> str:
    parts = [
        task.prompt,
        task.template,
        task.kind,
        list(task.tools),
        task.expected_output,
        task.reference,
        task.metadata,
    ]
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
