"""Measured runs: their records, the comparison with plain decoding, a table, a picture.

What draws, `timeline` and `demo_picture`, is imported by name where it is needed.
"""

from ssd.report.comparison import Comparison, Difference
from ssd.report.demo_report import DemoReport, Served
from ssd.report.measure import run
from ssd.report.run_record import Request, RunRecord
from ssd.report.side_by_side import Plan, run_side_by_side
from ssd.report.table import results_table

__all__ = [
    "Comparison",
    "DemoReport",
    "Difference",
    "Plan",
    "Request",
    "RunRecord",
    "Served",
    "results_table",
    "run",
    "run_side_by_side",
]
