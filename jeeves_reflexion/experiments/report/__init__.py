"""The report of an experiment: its figures as a value, a page to read, tables and plots for a paper."""

from jeeves_reflexion.experiments.report.analysis import make_report
from jeeves_reflexion.experiments.report.files import Written, write_report
from jeeves_reflexion.experiments.report.page import page
from jeeves_reflexion.experiments.report.tables import markdown
from jeeves_reflexion.experiments.report.values import Report

__all__ = ["Report", "Written", "make_report", "markdown", "page", "write_report"]
