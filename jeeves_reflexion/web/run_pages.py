"""The pages of runs: which there are, how they learn, their tasks, and one task's story attempt by attempt."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final
from urllib.parse import urlencode

import anyio.to_thread
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from jeeves_reflexion.errors import ExperimentError
from jeeves_reflexion.experiments.journal import Entry, Position
from jeeves_reflexion.web.renderer import number_of, page
from jeeves_reflexion.web.runs import Design, RunFolder, Runs, Tried, pictures

_PAGE: Final = 100


class RunPages:
    """The pages of the runs below one folder."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    async def index(self, request: Request) -> Response:
        """Show all runs."""
        found = await anyio.to_thread.run_sync(self._rows)
        return await page(request, "runs", rows=found, folder=str(self._runs.folder))

    def _rows(self) -> list[tuple[RunFolder, Design | None, str, float]]:
        rows: list[tuple[RunFolder, Design | None, str, float]] = []
        for run in self._runs.all():
            try:
                rows.append((run, run.design(), *run.state()))
            except ExperimentError as error:
                rows.append((run, None, str(error), 0.0))
        return rows

    async def show(self, request: Request) -> Response:
        """Show how a run learns, and a page of its tasks."""
        first = number_of(request.query_params.get("from", ""), 0)

        def read() -> dict[str, Any]:
            run = self._runs.get(request.query_params.get("run", ""))
            design, tries = run.design(), run.refresh()
            state, at = run.state()
            tasks = _tasks(tries.values())
            return {
                "run": run,
                "design": design,
                "state": state,
                "at": at,
                "live": state == "going on",
                "parts_of_run": [
                    (part, Markup(made))  # noqa: S704 - rendered with its texts escaped
                    for part, made in pictures(run, design, tries.values())
                ],
                "counts": _counts(design, tries.values()),
                "tasks": tasks[first : first + _PAGE],
                "total": len(tasks),
                "following": first + _PAGE if len(tasks) > first + _PAGE else None,
                "first": first,
            }

        return await page(request, "run", link=_story_link, **await anyio.to_thread.run_sync(read))

    async def story(self, request: Request) -> Response:
        """Show what one arm and seed did at one task, attempt by attempt."""
        asked = request.query_params
        name, task_id = asked.get("run", ""), asked.get("task", "")

        def read() -> dict[str, Any]:
            run = self._runs.get(name)
            tries = [each for each in run.refresh().values() if each.position.task_id == task_id]
            if not tries:
                raise ExperimentError(f"run {name!r} made no attempt at a task {task_id!r}")
            played = list(dict.fromkeys((each.position.arm, each.position.seed) for each in tries))
            wanted = (asked.get("arm", ""), asked.get("seed", ""))
            chosen = next((each for each in played if (each[0], str(each[1])) == wanted), played[0])
            own = [each for each in tries if (each.position.arm, each.position.seed) == chosen]
            own.sort(key=lambda each: each.position.trial)
            entries: list[tuple[Position, Entry]] = [
                (each.position, entry) for each, entry in zip(own, run.entries(own), strict=True)
            ]
            return {
                "run": run,
                "task_id": task_id,
                "played": played,
                "chosen": chosen,
                "story": entries,
                "live": run.state()[0] == "going on",
            }

        return await page(request, "story", link=_story_link, **await anyio.to_thread.run_sync(read))


def _story_link(run: str, task_id: str, arm: str, seed: int) -> str:
    return "/story?" + urlencode({"run": run, "task": task_id, "arm": arm, "seed": seed})


def _tasks(tries: Collection[Tried]) -> list[tuple[str, str, list[tuple[str, int, int, bool]]]]:
    """Return each task with its part, and for each arm and seed the attempts and whether the last one passed."""
    found: dict[tuple[str, str], dict[tuple[str, int], list[Tried]]] = {}
    for each in tries:
        at = each.position
        found.setdefault((at.task_id, at.split), {}).setdefault((at.arm, at.seed), []).append(each)
    return [
        (
            task,
            split,
            [(arm, seed, len(own), any(r.passed for r in own)) for (arm, seed), own in played.items()],
        )
        for (task, split), played in found.items()
    ]


def _counts(design: Design, tries: Collection[Tried]) -> list[dict[str, Any]]:
    """Say of each arm what it did so far."""
    found: list[dict[str, Any]] = []
    for arm in design.arms:
        own = [each for each in tries if each.position.arm == arm]
        last = {(e.position.seed, e.position.split, e.position.task_id): e for e in own}
        found.append(
            {
                "arm": arm,
                "attempts": len(own),
                "tasks": len(last),
                "solved": sum(each.passed for each in last.values()),
                "learned": sum(each.learned for each in own),
                "recalled": sum(each.recalled for each in own),
                "errors": sum(each.error for each in own),
            }
        )
    return found
