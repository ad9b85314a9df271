"""The report of an experiment: its figures as a value, a page to read, tables and plots for a paper."""

from jeeves_reflexion.experiments.report.making import make_report
from jeeves_reflexion.experiments.report.markdown import markdown
from jeeves_reflexion.experiments.report.page import page
from jeeves_reflexion.experiments.report.values import (
    Compared,
    LessonUse,
    Part,
    Reliability,
    Report,
    Spent,
    Success,
)
from jeeves_reflexion.experiments.report.writing import Written, write_report

__all__ = [
    "Compared",
    "LessonUse",
    "Part",
    "Reliability",
    "Report",
    "Spent",
    "Success",
    "Written",
    "make_report",
    "markdown",
    "page",
    "write_report",
]
