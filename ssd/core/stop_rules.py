"""Which texts end an output."""

from dataclasses import dataclass

from ssd.core.errors import InvalidRequest

MAX_STOP_STRINGS = 16
MAX_STOP_LEN = 256


@dataclass(frozen=True, slots=True)
class StopRules:
    """Stop strings, and whether the one that was found stays in the text."""

    stops: tuple[str, ...] = ()
    are_included: bool = False

    def __post_init__(self) -> None:
        if len(self.stops) > MAX_STOP_STRINGS:
            raise InvalidRequest(
                f"stop may have {MAX_STOP_STRINGS} entries, not {len(self.stops)}", "stop"
            )
        for stop in self.stops:
            if not 0 < len(stop) <= MAX_STOP_LEN:
                raise InvalidRequest(
                    f"each of stop must be 1 to {MAX_STOP_LEN} characters, not {len(stop)}", "stop"
                )
