"""What speculation does on one's own prompts: `ssd measure`."""

from ssd.measure.measurement import Measurement, Way
from ssd.measure.prompt_file import OwnPrompt, read_prompts
from ssd.measure.recommendation import Recommendation, recommend
from ssd.measure.run import Plan, run_plan
from ssd.measure.table import measured_table, report_json

__all__ = [
    "Measurement",
    "OwnPrompt",
    "Plan",
    "Recommendation",
    "Way",
    "measured_table",
    "read_prompts",
    "recommend",
    "report_json",
    "run_plan",
]
