"""The report as one HTML file, without scripts or external resources; its policy has the browser refuse both.

The templates beside this module escape the texts of models and users. Sections unfold as ``<details>`` elements, which
work with a keyboard and a screen reader.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup

from jeeves_reflexion.errors import ExperimentError
from jeeves_reflexion.experiments.arms import ArmName
from jeeves_reflexion.experiments.journal import Entry
from jeeves_reflexion.experiments.plan import JudgedBy, Split
from jeeves_reflexion.experiments.report.analysis import (
    Part,
    Report,
    facts,
    heading,
    lesson_table,
    make_report,
    markdown,
    tables,
)
from jeeves_reflexion.experiments.results import Results, Tried
from jeeves_reflexion.files import replace_file
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import JSON, Evaluation, Task

SHOWN: Final = 800
"""The most characters that are shown of each text of a try."""

SHOWN_PROMPT: Final = 4_000

_JUDGES: Final = {"oracle": "judged by an oracle", "self": "judged by the agent's own side"}
_COLOURS: Final = ("#2b83ba", "#d7711d", "#1a9b77", "#c05a9c", "#808894", "#a3841a", "#7b6bd0", "#cf4a42")
_DASHES: Final = ("", "7 4", "2 3")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 520, 330, 60, 500, 12, 282
_UNFIT: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Written:
    """The files of a report: the page, its tables, and its learning curves as SVG."""

    html: Path
    markdown: Path
    pictures: tuple[Path, ...]


def write_report(results: Results, folder: str | os.PathLike[str], *, title: str = "Experiment") -> Written:
    """Write ``report.html``, ``report.md`` and the curves as SVG into a folder, and return their paths.

    The folder is created, and older files are replaced. Blocks, for some seconds with thousands of tries: in an event
    loop, call it from a worker thread. Raises :class:`ExperimentError` if a file can't be written.
    """
    target, report = Path(folder), make_report(results, title=title)
    drawn = {f"curves-{part.split}-{part.judge}-judged.svg": curves(part, report) for part in report.parts}
    pictures = {name: curve for name, curve in drawn.items() if curve}
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, text in {**pictures, "report.html": page(report), "report.md": markdown(report)}.items():
            replace_file(target / name, text)
    except OSError as error:
        raise ExperimentError(
            f"the report can't be written to {target}: {error.strerror or error}"
        ) from error
    return Written(target / "report.html", target / "report.md", tuple(target / name for name in pictures))


def page(report: Report) -> str:
    """Return the report as HTML."""
    style = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    parts = [
        {
            "name": f"{'Learning' if part.split == 'learning' else 'Held-out'} tasks, {_JUDGES[part.judge]}",
            "heading": heading(part),
            "trials": part.trials,
            "findings": [each for each in part.compared if each.trial == part.trials],
            "caption": "Tasks solved so far, with 95 % intervals",
            "curve": Markup(curves(part, report)),  # noqa: S704 - rendered with its texts escaped
            "tables": list(tables(part, report)),
        }
        for part in report.parts
    ]
    results = report.results
    by_task: dict[tuple[Split, str], list[Tried]] = {}
    for row in results.rows:
        by_task.setdefault((row.split, row.task.id), []).append(row)
    return _TEMPLATES.get_template("page.html").render(
        report=report,
        facts=facts(report),
        parts=parts,
        lessons=lesson_table(report),
        stories=(  # one at a time: together they hold the texts of all tries
            _story(results, task, split, by_task.get((split, task.id), []))
            for split in results.splits
            for task in results.tasks_of(split)
        ),
        style=Markup(style),  # noqa: S704 - a file of this package
        # Templates escape the texts of models. If one slips through, this policy keeps the browser from running it.
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
    )


def _fit(value: object) -> object:
    """Replace characters that HTML can't hold, and carriage returns by line feeds, as a browser would."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _UNFIT.sub("\ufffd", value.replace("\r\n", "\n").replace("\r", "\n"))


_TEMPLATES: Final = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
    finalize=_fit,
)


def curves(part: Part, report: Report) -> str:
    """Return the learning curves of a part with their intervals as SVG; "" if no arm finished a seed."""
    known, arms, last = [each for each in part.success if each.points], report.results.arms, part.trials
    if not known:
        return ""
    # Points are shifted a little sideways, arm by arm, so that equal curves don't hide each other.
    aside = min(0.04, 0.2 / len(arms)) if last > 1 else 0.3 / len(arms)

    def across(trial: float) -> float:
        return round(_LEFT + (trial - 0.85) / (last - 0.7) * (_RIGHT - _LEFT), 1)

    def up(share: float) -> float:
        return round(_BOTTOM - share * (_BOTTOM - _TOP), 1)

    lines = []
    for each in known:
        arm = arms.index(each.arm)
        beside = (arm - (len(arms) - 1) / 2) * aside
        points = [
            (
                across(p.trial + beside),
                up(p.share.value),
                up(p.share.low),
                up(p.share.high),
                f"{each.arm}, trial {p.trial}: {p.share}",
            )
            for p in each.points
        ]
        key = (_LEFT + arm % 3 * 150, _HEIGHT + 22 * (arm // 3 + 1) - 7)
        dash = _DASHES[arm // len(_COLOURS) % len(_DASHES)]
        lines.append(
            {
                "arm": each.arm,
                "colour": _COLOURS[arm % len(_COLOURS)],
                "dash": dash,
                "points": points,
                "key": key,
            }
        )
    solved = "; ".join(f"{each.arm} {each.points[-1].share.value:.0%}" for each in known)
    return _TEMPLATES.get_template("curve.svg").render(
        title="Learning curves" if last > 1 else "First tries",
        told=f"Solved by the last trial: {solved}. The table below has all figures.",
        width=_WIDTH,
        height=_HEIGHT + 22 * math.ceil(len(arms) / 3),
        left=_LEFT,
        right=_RIGHT,
        bottom=_BOTTOM,
        ticks=[(share, up(share)) for share in (0.0, 0.25, 0.5, 0.75, 1.0)],
        trials=[(trial, across(trial)) for trial in range(1, last + 1)],
        lines=lines,
    )


# -- each task's story


def _story(results: Results, task: Task, split: Split, rows: list[Tried]) -> dict[str, object]:
    """Return what every arm tried of a task, what it recalled, and how it was judged."""
    played: dict[tuple[ArmName, int], list[Tried]] = {}
    for row in sorted(rows, key=lambda row: (results.arms.index(row.arm), results.seeds.index(row.seed))):
        played.setdefault((row.arm, row.seed), []).append(row)
    solved = {key: results.solved(tries, results.judged_by)[-1] for key, tries in played.items()}
    tallies = []
    for arm in dict.fromkeys(arm for arm, _ in played):
        passed = [each for (name, _), each in solved.items() if name == arm]
        tallies.append((arm, sum(passed), len(passed)))
    # The question is usually the last line of the prompt.
    question = next(line for line in reversed(task.prompt.splitlines()) if line.strip())
    return {
        "question": _cut(question.strip(), 140),
        "held_out": split == "held-out",
        "tallies": tallies,
        "name": f"task {_cut(task.id, 120)}" + (f", kind {_cut(task.kind, 120)}" if task.kind else ""),
        "prompt": _cut(task.prompt, SHOWN_PROMPT),
        "played": [
            {
                "name": f"{arm}, seed {seed}: {'solved' if solved[arm, seed] else 'not solved'}",
                "tries": [_try(results, row) for row in tries],
            }
            for (arm, seed), tries in played.items()
        ],
    }


def _try(results: Results, row: Tried) -> dict[str, object]:
    entry, used = row.read(), row.usage
    trial = entry.trial
    head = ["passed" if trial.passed else "failed", _score(trial.evaluation)]
    head += [f"{len(trial.attempt.steps)} steps", f"{trial.seconds:.1f} s"]
    least = "at least " if used.unreported else ""
    head.append(f"{least}{used.tokens} tokens" if used.calls > used.unreported else "tokens unknown")
    text = "\n\n".join(_paragraphs(results, entry, row.task.reference))
    return {"head": f"Trial {trial.number}: {', '.join(head)}", "passed": trial.passed, "text": text}


def _score(verdict: Evaluation) -> str:
    return "not scored" if verdict.score is None else f"score {verdict.score:.2f}"


def _paragraphs(results: Results, entry: Entry, gold: JSON) -> Iterator[str]:
    """Yield the story of a try: what was recalled, answered, judged and learned."""
    trial, attempt = entry.trial, entry.trial.attempt
    if trial.recall is not None and (trial.recall.offered or trial.recall.withheld):
        offered, withheld = trial.recall.offered, len(trial.recall.withheld)
        lessons = [f"{each.lesson.text} ({each.similarity:.2f})" for each in offered[:5]]
        more = [f"and {len(offered) - 5} more"] * (len(offered) > 5)
        by_chance = f", {withheld} withheld by chance" if withheld else ""
        yield _listed(f"Lessons recalled{by_chance}", [*lessons, *more])
    ends = {"Output": attempt.output, "Error": attempt.error, "Ended early": attempt.interrupted}
    for name, text in ends.items():
        if text and text.strip():
            yield f"{name}\n{_cut(text)}"
    yield _verdict(results.judged_by, trial.evaluation.public(gold))
    if entry.scored is not None and len(results.judges) > 1:
        yield _verdict("oracle", entry.scored.public(gold))
    if trial.reflection is not None:
        yield f"Lesson written\n{_cut(trial.reflection.lesson)}"
    if trial.problems:
        yield _listed("Problems", trial.problems)


def _verdict(judge: JudgedBy, verdict: Evaluation) -> str:
    who = "agent's own side" if judge == "self" else "oracle"
    return _listed(
        f"Verdict of the {who}: {_score(verdict)}\n{_cut(verdict.rationale)}".rstrip(), verdict.faults
    )


def _listed(head: str, texts: Iterable[Any]) -> str:
    return "\n".join([head, *(f"- {_cut(text)}" for text in texts)])


@functools.lru_cache(1024)  # a lesson is shown at every try that recalled it
def _cut(text: str, characters: int = SHOWN) -> str:
    """Return a text without secrets; of a long text the beginning and the end."""
    # Redact far more than is shown: half of a secret would not be recognised as one.
    return _shortened(redact(_shortened(text, 4 * characters + 4000)), characters)


def _shortened(text: str, characters: int) -> str:
    if len(text) <= characters:
        return text
    head, cut = characters * 2 // 3, len(text) - characters
    return f"{text[:head]} [... {cut} characters cut ...] {text[cut + head :]}"
