"""The report of an experiment: its figures, an HTML page, and tables and plots for a paper."""

from jeeves_reflexion.experiments.report.analysis import Report, make_report, markdown
from jeeves_reflexion.experiments.report.page import Written, page, write_report

__all__ = ["Report", "Written", "make_report", "markdown", "page", "write_report"]
