"""Benchmarks of the parts: what a forward, a batch and a draw cost against what they could."""

from ssd.bench.engine import ENGINE_MEASUREMENTS, Measurement
from ssd.bench.figure import Figure
from ssd.bench.report import figures_table, report_json
from ssd.bench.timing import use_threads

__all__ = [
    "ENGINE_MEASUREMENTS",
    "Figure",
    "Measurement",
    "figures_table",
    "report_json",
    "use_threads",
]
