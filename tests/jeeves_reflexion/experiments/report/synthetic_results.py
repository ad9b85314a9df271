"""Results of an experiment that never ran, for reports: by chance, and the same for the same arguments."""

from __future__ import annotations

import random

from jeeves_reflexion import (
    Attempt,
    Evaluation,
    Lesson,
    Provenance,
    Recall,
    RecalledLesson,
    Step,
    Task,
    Trial,
)
from jeeves_reflexion.experiments import Results, Tried, arm_of
from jeeves_reflexion.types import Lift, Reflection, Usage

KINDS = ("put", "clean", "heat", "cool", "examine")
CHANCES = {"react": 0.3, "retry": 0.3, "last-attempt": 0.34, "reflexion": 0.42, "selective": 0.5}
OBSERVATION = "On the {place}, you see a book 2, a keychain 3, a remotecontrol 1, and a pen {n}. "


def a_task(i):
    kind = KINDS[i % len(KINDS)]
    return Task(
        f"You are in a room.\nYour task is to: {kind} some object {i} in shelf {i % 7}.",
        id=f"game-{i:03}",
        kind=kind,
    )


def a_lesson(task, number, text=None):
    told = (
        text
        or f"For {task.id}: look at shelf {number} before anything else, since objects of its kind lie there."
    )
    return Lesson(
        f"{task.id}-{number}", told, task.id, task.prompt, Provenance("run", number, 0.0), task.kind
    )


def a_trial(rng, task, number, *, chance=0.4, steps=12, tokens=True, lessons=0, lift=False, score=None):
    passed = rng.random() < chance
    made = tuple(
        Step(
            f"I think about {i}.",
            f"go to shelf {i}",
            OBSERVATION.format(place=f"shelf {i}", n=i) * 2,
            i % 9 == 8,
        )
        for i in range(steps)
    )
    recall = None
    if lessons:
        known = Lift(0.2 - 0.05 * number, -0.1, 0.4, 12, 11) if lift else None
        items = tuple(RecalledLesson(a_lesson(task, i), 0.8 - 0.1 * i, "near", known) for i in range(lessons))
        recall = Recall("r", task.id, items)
    usage = {"agent": Usage(steps, 400 * steps + rng.randrange(300), 30 * steps, 0.002, 0)} if tokens else {}
    return Trial(
        number,
        Attempt("the object is in place" if passed else "nothing found", made),
        Evaluation(
            float(passed) if score is None else score, passed, "it is there" if passed else "it is not there"
        ),
        recall,
        reflection=None if passed else Reflection(f"I looked in the wrong place in try {number}."),
        passed=passed,
        usage=usage,
        seconds=3.0 + rng.random(),
    )


def results(
    tasks=8,
    arms=("retry", "selective"),
    seeds=(0,),
    trials=3,
    held_out=0,
    *,
    scored=False,
    judged_by="oracle",
    seed=7,
    **trial,
):
    everything = [a_task(i) for i in range(tasks + held_out)]
    found = Results(
        tuple(everything[:tasks]),
        tuple(arms),
        tuple(seeds),
        trials,
        held_out=tuple(everything[tasks:]),
        judged_by=judged_by,
        scored=scored,
    )
    rng = random.Random(seed)
    ease = {task.id: rng.uniform(-0.25, 0.25) for task in everything}
    for arm in arms:
        chance = CHANCES.get(arm_of(arm).kind, 0.45)
        for one in seeds:
            for i, task in enumerate(everything):
                held = i >= tasks
                for number in range(1, 2 if held else arm_of(arm).trials(trials) + 1):
                    lessons = 3 if arm_of(arm).learns and (held or number > 1) else 0
                    now = chance + ease[task.id] if held or number > 1 else 0.3 + ease[task.id]
                    made = a_trial(rng, task, number, chance=now, lessons=lessons, **trial)
                    verdict = Evaluation(float(made.passed and rng.random() < 0.8)) if scored else None
                    if verdict is not None:
                        verdict = Evaluation(verdict.score, passed=bool(verdict.score))
                    found.rows.append(
                        Tried(arm, one, task, made, "held-out" if held else "learning", verdict)
                    )
                    if made.passed:
                        break
    return found
