"""Who drafts, as a configuration has it."""

from ssd.config.embedded import resolve_draft
from ssd.config.ssd_config import SsdConfig
from ssd.core.drafter_kind import NO_KINDS, TRAITS, DrafterKind
from ssd.core.errors import ConfigError
from ssd.core.ngram_limits import NgramLimits

_SIZES = {"code": (12, 48, 1), "text": (8, 32, 2)}
_MIB = 2**20


def drafters_of(config: SsdConfig) -> frozenset[DrafterKind]:
    """The kinds of drafters that are to work.

    Raises:
        ConfigError: what one of them needs is not configured, or for another than is named.
    """
    kinds, models = frozenset(config.speculation.drafters), config.models
    if not kinds:
        if models.draft_layers is not None:
            return frozenset({DrafterKind.SELF})
        return NO_KINDS if resolve_draft(models) is None else frozenset({DrafterKind.MODEL})
    if DrafterKind.SELF in kinds and models.draft_layers is None:
        raise ConfigError("drafter self needs models.draft_layers, how many layers it is to keep")
    if DrafterKind.MODEL in kinds:
        if models.draft_layers is not None:
            raise ConfigError(
                f"models.draft_layers ({models.draft_layers}) is for drafter self, not model"
            )
        if resolve_draft(models) is None:
            raise ConfigError(
                f"drafter model needs models.draft: {models.target} has none of its own"
            )
    return kinds


def draft_of(config: SsdConfig) -> str | None:
    """Where the draft model comes from; None where no model drafts.

    Raises:
        ConfigError: see `drafters_of`.
    """
    has_model = any(TRAITS[kind].has_weights for kind in drafters_of(config))
    return resolve_draft(config.models) if has_model else None


def needs_process(kind: DrafterKind, config: SsdConfig) -> bool:
    """Whether a kind of drafter is a process of its own."""
    return TRAITS[kind].has_weights or config.ngram.place == "process"


def ngram_limits_of(config: SsdConfig, *, max_nodes: int) -> NgramLimits:
    """Raises ConfigError where the shortest run is longer than the longest."""
    ngram = config.ngram
    size_n, size_m, min_hits = _SIZES[ngram.preset]
    return NgramLimits(
        form=ngram.form,
        size_n=ngram.size_n or size_n,
        size_m=ngram.size_m or size_m,
        min_hits=ngram.min_hits or min_hits,
        shortest=ngram.shortest,
        num_candidates=ngram.candidates,
        max_nodes=max_nodes,
        table_bytes=ngram.table_mb * _MIB,
    )
