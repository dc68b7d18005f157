"""One thing that was looked at."""

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """FAIL keeps the service from working, WARN makes it slow or fragile."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """What was found, and what to do where it is not well."""

    name: str
    health: Health
    found: str
    advice: str = ""


def ok(name: str, found: str) -> Check:
    return Check(name, Health.OK, found)


def warn(name: str, found: str, advice: str) -> Check:
    return Check(name, Health.WARN, found, advice)


def fail(name: str, found: str, advice: str) -> Check:
    return Check(name, Health.FAIL, found, advice)
