"""What is wrong with a machine or a service, and what to do about it."""

from ssd.doctor.check import Check, Health
from ssd.doctor.machine import machine_checks
from ssd.doctor.service import service_checks

__all__ = ["Check", "Health", "machine_checks", "service_checks"]
