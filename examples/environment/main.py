"""An agent with side effects learns over several tasks, trial by trial, from its environment's reward.

    python main.py

It looks for things in a kitchen where opened doors stay open, so a reset precedes each retry. The lessons of a trial
are stored at its end, for all tasks together, and are recalled from the next trial on.
"""

import anyio

from jeeves_reflexion import Attempt, Reflexion, RewardEvaluator, Session, Step, Task, Trial
from vectorstores import HashingEmbedder, InMemoryVectorStore

PLACES = ("drawer", "shelf", "oven", "fridge", "basket", "cupboard")
HIDDEN = {"keys": "fridge", "book": "shelf", "mug": "cupboard"}
DOORS = 2  # that may be opened in one attempt


class Seeker:
    retry_safe = True  # because reset undoes what an attempt did

    def __init__(self) -> None:
        self.closed = {thing: set(PLACES) for thing in HIDDEN}

    async def reset(self, task: Task, session: Session) -> None:
        self.closed[wanted(task)] = set(PLACES)

    async def __call__(self, task: Task, session: Session) -> Attempt:
        thing, steps = wanted(task), []
        lessons = [line for line in session.blocks["reflexion_lessons"].splitlines() if thing in line]
        unlikely = [place for place in PLACES if any(place in line for line in lessons)]
        for place in sorted(PLACES, key=unlikely.__contains__)[:DOORS]:
            self.closed[thing].remove(place)  # a KeyError if the door is open already
            found = HIDDEN[thing] == place
            steps.append(Step("", f"open the {place}", f"there is the {thing}" if found else "nothing"))
            if found:
                return Attempt(f"in the {place}", tuple(steps), metadata={"reward": 1.0})
        return Attempt("not found", tuple(steps), metadata={"reward": 0.0})


def wanted(task: Task) -> str:
    return task.prompt.split()[-1]


def reflect(task: Task, trials: list[Trial]) -> str:
    opened = " and the ".join(step.action.split()[-1] for step in trials[-1].attempt.steps)
    return f"The {wanted(task)} was not behind the {opened}: look elsewhere first."


async def main() -> None:
    store = InMemoryVectorStore(HashingEmbedder(), namespace="kitchen")
    reflexion = Reflexion(Seeker(), evaluator=RewardEvaluator(), reflector=reflect, lesson_store=store)
    runs = [(Task(f"Find the {thing}"), list[Trial](), reflexion.session()) for thing in HIDDEN]
    for number in range(1, reflexion.max_attempts + 1):
        waiting = [run for run in runs if not run[1] or reflexion.stop_reason(run[1]) is None]
        for task, trials, session in waiting:
            trials.append(await reflexion.trial(task, trials, session, commit=False))
        for task, trials, session in waiting:
            trials[-1] = await reflexion.commit(task, trials[-1], session)
        found = [wanted(task) for task, trials, _ in runs if trials[-1].passed]
        print(f"Trial {number}: found {len(found)} of {len(runs)} ({', '.join(found)})")


if __name__ == "__main__":
    anyio.run(main)
