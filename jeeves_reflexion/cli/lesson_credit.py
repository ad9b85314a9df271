"""Whether a command recalls lessons by what they did for earlier attempts; the same for all commands."""

from __future__ import annotations

from jeeves_reflexion.lessons import LessonSettings
from jeeves_reflexion.lessons.credit.effects import Withholding
from jeeves_reflexion.lessons.settings import Credit


def credit_of(
    asked: bool | None,  # noqa: FBT001 - as click gives it
    *,
    withhold: float | None = None,
    early: float | None = None,
    half_life: float | None = None,
) -> Credit | None:
    """Return the credit that was asked for; as a lesson store has it by itself where nothing was.

    ``asked`` is None without ``--credit`` and ``--no-credit``; a share to withhold or a half-life, in days, asks for
    credit too. ``early`` is the share for lessons of which nothing is known, and goes with ``withhold``.
    """
    wanted = asked if asked is not None else withhold is not None or half_life is not None
    default = LessonSettings().credit
    if not wanted:
        return None if asked is False else default
    made = default or Credit()
    return Credit(
        withholding=made.withholding if withhold is None else Withholding(withhold, early=early),
        retire=made.retire,
        half_life_days=made.half_life_days if half_life is None else half_life,
        max_age=made.max_age,
    )
