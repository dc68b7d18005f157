"""What takes time in a simulated cluster."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds. A forward of n rows takes its base and n times its row.

    `glue_s` is what a drafter spends once per commit before its next growth step, `overhead_s` what
    a verifier spends per round outside its forward, and `delay_s` one way between the two.
    """

    verify_s: float
    verify_row_s: float
    step_s: float
    step_row_s: float
    glue_s: float = 0.0
    overhead_s: float = 0.0
    delay_s: float = 0.0

    def verification_s(self, num_rows: int) -> float:
        return self.verify_s + self.verify_row_s * num_rows

    def growth_step_s(self, num_rows: int) -> float:
        return self.step_s + self.step_row_s * num_rows
