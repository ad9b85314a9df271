"""Writes the results of an experiment to an MLflow tracker, with MLflow's client (the extra ``mlflow``)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from jeeves_reflexion.errors import (
    ConfigurationError,
    ExperimentError,
    MissingDependencyError,
    ReflexionError,
    described,
)
from jeeves_reflexion.experiments.arms import ArmName
from jeeves_reflexion.experiments.results import Results
from jeeves_reflexion.redaction import redact

_FILES: Final = ("config.json", "results.json", "rows.jsonl")
_PARAM: Final = 500  # characters; every kind of tracker accepts so many


class MLflowTracker:
    """The tracker at ``MLFLOW_TRACKING_URI``, by default ``mlflow.db`` in the working folder.

    The experiment is ``MLFLOW_EXPERIMENT_NAME``, by default the name given; it is created if it does not exist. All
    methods block. Raises :class:`ConfigurationError` if the tracker can't be used, and
    :class:`MissingDependencyError`.
    """

    def __init__(self, experiment: str) -> None:
        try:
            from mlflow import MlflowClient  # noqa: PLC0415 - optional dependency
        except ImportError as error:
            raise MissingDependencyError("--track mlflow", "mlflow") from error
        with _failures(ConfigurationError, "can't be used"):
            self._client = MlflowClient()
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or experiment
            known = self._client.get_experiment_by_name(name)
            self._experiment = known.experiment_id if known else self._client.create_experiment(name)

    def write(self, results: Results, folder: Path) -> str:
        """Write a run from its folder, with a child run for each arm, and return the id of the parent run.

        A resumed run is written again as a new run. Raises :class:`ExperimentError`; the folder still has everything.
        """
        status = "KILLED" if results.interrupted else "FINISHED"
        with _failures(ExperimentError, f"could not be written to; the run is kept in {folder}"):
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            design: Mapping[str, Any] = config.pop("design", {})
            params = {  # settings, without versions and texts
                key: str(value)[:_PARAM]
                for key, value in {**config, **design}.items()
                if isinstance(value, str | int | float | list) and key not in {"format", "started"}
            }
            totals = {
                ("tasks", 0): len(results.tasks),
                ("held_out_tasks", 0): len(results.held_out),
                ("tries", 0): len(results.rows),
                ("tries_with_errors", 0): results.errors,
            }
            parent = self._run(folder.name, {}, params, totals)
            for name in _FILES:
                if (folder / name).exists():
                    self._client.log_artifact(parent, str(folder / name))
            if (folder / "report").exists():
                self._client.log_artifacts(parent, str(folder / "report"), "report")
            for arm in results.arms:
                made = self._run(arm, {"mlflow.parentRunId": parent}, {"arm": arm}, _figures(results, arm))
                self._client.set_terminated(made, status)
            self._client.set_terminated(parent, status)
        return parent

    def _run(
        self,
        name: str,
        tags: Mapping[str, str],
        params: Mapping[str, str],
        metrics: Mapping[tuple[str, int], float],
    ) -> str:
        from mlflow.entities import Metric, Param  # noqa: PLC0415 - as above

        made: str = self._client.create_run(self._experiment, run_name=name, tags=dict(tags)).info.run_id
        now = int(time.time() * 1000)
        self._client.log_batch(
            made,
            params=[Param(key, value) for key, value in params.items()],
            metrics=[Metric(key, value, now, step) for (key, step), value in metrics.items()],
        )
        return made


@contextmanager
def _failures(kind: type[ReflexionError], what: str) -> Iterator[None]:
    try:
        yield
    except ReflexionError:
        raise
    except Exception as error:  # the client's own, its database's, and those of HTTP
        said = described(error).strip().split("\n")[0]
        raise kind(f"the tracker {what}: {redact(said)}") from error


def _figures(results: Results, arm: ArmName) -> dict[tuple[str, int], float]:
    """Return an arm's figures by name and trial, where trial 0 is the whole run. Unknown figures are left out."""
    figures: dict[tuple[str, int], float] = {("lessons", 0): len(results.lessons(arm))}
    for judge in results.judges:
        shares = [(f"solved.{judge}", each.trial, each.share) for each in results.curve(arm, by=judge).points]
        if results.held_out and (share := results.transfer(arm, by=judge)):
            shares.append((f"held_out.{judge}", 0, share))
        for name, trial, share in shares:
            figures[name, trial] = share.value
            figures[f"{name}.low", trial], figures[f"{name}.high", trial] = share.low, share.high
    for name, amount in results.cost(arm).as_json().items():
        if isinstance(amount, int | float):
            figures[name, 0] = amount
    return figures
