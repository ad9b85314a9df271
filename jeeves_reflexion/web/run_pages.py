"""The pages of runs: the list of runs, one run's curves and tasks, and one task attempt by attempt."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from jeeves_reflexion.errors import ExperimentError
from jeeves_reflexion.experiments.arms import ArmName
from jeeves_reflexion.experiments.results import Results
from jeeves_reflexion.web.renderer import number_of, render
from jeeves_reflexion.web.runs import RunFolder, Runs, pictures

_PAGE: Final = 100


class RunPages:
    """The pages of the runs below one folder. They read files, so Starlette calls them in worker threads."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def index(self, request: Request) -> Response:
        """Show all runs."""
        rows: list[tuple[RunFolder, Results | None, float, str, float]] = []
        for run in self._runs.all():
            try:
                rows.append((run, *run.begun(), *run.state()))
            except ExperimentError as error:
                rows.append((run, None, 0.0, str(error), 0.0))
        return render(request, "runs", rows=rows, folder=str(self._runs.folder))

    def show(self, request: Request) -> Response:
        """Show the learning curves of a run and a page of its tasks."""
        first = number_of(request.query_params.get("from", ""), 0)
        run = self._runs.get(request.query_params.get("run", ""))
        results = run.results()
        state, at = run.state()
        # For each arm and seed of a task, whether each of its attempts passed.
        tasks: dict[tuple[str, str], dict[tuple[str, int], list[bool]]] = {}
        for each in results.rows:
            played = tasks.setdefault((each.task.id, each.split), {})
            played.setdefault((each.arm, each.seed), []).append(each.passed)
        listed = [
            (task, split, [(*of, len(passed), any(passed)) for of, passed in played.items()])
            for (task, split), played in list(tasks.items())[first : first + _PAGE]
        ]
        return render(
            request,
            "run",
            link=_story_link,
            run=run,
            started=run.begun()[1],
            state=state,
            at=at,
            live=state == "going on",
            parts_of_run=[
                (part, Markup(picture))  # noqa: S704 - rendered with its texts escaped
                for part, picture in pictures(run.name, results)
            ],
            counts=[_counts(results, arm) for arm in results.arms],
            tasks=listed,
            total=len(tasks),
            following=first + _PAGE if len(tasks) > first + _PAGE else None,
            first=first,
        )

    def story(self, request: Request) -> Response:
        """Show what one arm with one seed did at one task, attempt by attempt."""
        asked = request.query_params
        name, task_id = asked.get("run", ""), asked.get("task", "")
        run = self._runs.get(name)
        tries = {position: row for position, row in run.refresh().items() if position.task_id == task_id}
        if not tries:
            raise ExperimentError(f"run {name!r} has no attempt at task {task_id!r}")
        played = list(dict.fromkeys((each.arm, each.seed) for each in tries))
        wanted = (asked.get("arm", ""), asked.get("seed", ""))
        chosen = next((each for each in played if (each[0], str(each[1])) == wanted), played[0])
        own = sorted((each for each in tries if (each.arm, each.seed) == chosen), key=lambda at: at.trial)
        return render(
            request,
            "story",
            link=_story_link,
            run=run,
            task_id=task_id,
            played=played,
            chosen=chosen,
            story=[(position, tries[position].read()) for position in own],
            live=run.state()[0] == "going on",
        )


def _story_link(run: str, task_id: str, arm: str, seed: int) -> str:
    return "/story?" + urlencode({"run": run, "task": task_id, "arm": arm, "seed": seed})


def _counts(results: Results, arm: ArmName) -> dict[str, Any]:
    """Return the figures of an arm so far, as the page's table shows them."""
    own, cost = [each for each in results.rows if each.arm == arm], results.cost(arm)
    return {
        "arm": arm,
        "attempts": cost.tries,
        "tasks": len({(each.seed, each.split, each.task.id) for each in own}),
        "solved": cost.solved,
        "learned": sum(each.lesson is not None for each in own),
        "recalled": sum(each.recalled for each in own),
        "errors": sum(each.error for each in own),
    }
