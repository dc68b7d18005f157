"""One configuration for all processes: flag > environment > file > default."""

from ssd.config.drafting import draft_of, drafters_of, needs_process, ngram_limits_of
from ssd.config.embedded import resolve_draft, resolve_model
from ssd.config.flags import as_assignments, parse_assignments
from ssd.config.loading import LoadedConfig, load_config
from ssd.config.memory import parse_memory
from ssd.config.render import flat_values, render_example, render_origins
from ssd.config.sections import (
    ClusterSection,
    CoordinatorSection,
    DrafterSection,
    LoggingSection,
    MetricsSection,
    ModelsSection,
    NgramSection,
    SecuritySection,
    SpeculationSection,
    TimeoutsSection,
    VerifierSection,
)
from ssd.config.setting import Setting, settings
from ssd.config.ssd_config import SsdConfig

__all__ = [
    "ClusterSection",
    "CoordinatorSection",
    "DrafterSection",
    "LoadedConfig",
    "LoggingSection",
    "MetricsSection",
    "ModelsSection",
    "NgramSection",
    "SecuritySection",
    "Setting",
    "SpeculationSection",
    "SsdConfig",
    "TimeoutsSection",
    "VerifierSection",
    "as_assignments",
    "draft_of",
    "drafters_of",
    "flat_values",
    "load_config",
    "needs_process",
    "ngram_limits_of",
    "parse_assignments",
    "parse_memory",
    "render_example",
    "render_origins",
    "resolve_draft",
    "resolve_model",
    "settings",
]
