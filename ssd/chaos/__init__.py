"""Faults of real processes under real load, and whether anybody noticed."""

from ssd.chaos.process_faults import Fault, FaultKind, is_alive, random_fault
from ssd.chaos.report import ChaosReport, report_table
from ssd.chaos.run import Victims, run_chaos
from ssd.chaos.streams import Case, Connect, Outcome, Streams, references

__all__ = [
    "Case",
    "ChaosReport",
    "Connect",
    "Fault",
    "FaultKind",
    "Outcome",
    "Streams",
    "Victims",
    "is_alive",
    "random_fault",
    "references",
    "report_table",
    "run_chaos",
]
