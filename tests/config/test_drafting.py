"""Who drafts, as a configuration has it, and what stops the process."""

from typing import Any

import pytest

from ssd.cluster.local_service import worker_specs
from ssd.config import SsdConfig, drafters_of, load_config, ngram_limits_of
from ssd.core.drafter_kind import DrafterKind
from ssd.core.errors import ConfigError
from ssd.core.ngram_limits import NgramForm, NgramLimits

MODEL, NGRAM, SELF = DrafterKind.MODEL, DrafterKind.NGRAM, DrafterKind.SELF


def config(**flags: Any) -> SsdConfig:
    overrides = {name.replace("__", "."): value for name, value in flags.items()}
    return load_config(file=None, environment={}, overrides=overrides).config


@pytest.mark.parametrize(
    ("flags", "kinds"),
    [
        ({}, {MODEL}),
        ({"models__target": "./mine"}, set()),
        ({"models__draft_layers": 2}, {SELF}),
        ({"speculation__drafters": "ngram"}, {NGRAM}),
        ({"speculation__drafters": "model,ngram"}, {MODEL, NGRAM}),
        ({"speculation__drafters": "ngram, self", "models__draft_layers": 2}, {NGRAM, SELF}),
    ],
)
def test_who_drafts(flags: dict[str, Any], kinds: set[DrafterKind]) -> None:
    assert drafters_of(config(**flags)) == kinds


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"speculation__drafters": "oracle"}, "speculation.drafters"),
        ({"speculation__drafters": "model,self", "models__draft_layers": 2}, "name one of them"),
        ({"speculation__drafters": "self"}, "models.draft_layers"),
        ({"speculation__drafters": "model", "models__target": "./mine"}, "needs models.draft"),
        ({"speculation__drafters": "model", "models__draft_layers": 2}, "not model"),
        ({"speculation__drafters": "model,ngram", "speculation__rule": "ratio"}, "one drafter"),
        ({"ngram__shared": "true"}, "map-k"),
        ({"ngram__size_n": 0}, "ngram.size_n"),
    ],
)
def test_what_cannot_draft_is_refused(flags: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        drafters_of(config(**flags))


def test_a_preset_fills_in_what_is_not_given() -> None:
    text = config(ngram__preset="text", ngram__size_m=16, ngram__form="map-k4v")
    assert ngram_limits_of(text, max_nodes=8) == NgramLimits(
        NgramForm.MAP_K4V, size_n=8, size_m=16, min_hits=2, max_nodes=8
    )
    code = ngram_limits_of(config(), max_nodes=8)
    assert (code.size_n, code.size_m, code.min_hits) == (12, 48, 1)


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ({}, ["drafter-0", "verifier-0"]),
        ({"speculation__drafters": "ngram"}, ["verifier-0"]),
        ({"speculation__drafters": "model,ngram"}, ["drafter-0", "verifier-0"]),
        (
            {"speculation__drafters": "model,ngram", "ngram__place": "process"},
            ["drafter-0", "verifier-0"],
        ),
    ],
)
def test_a_model_that_drafts_has_a_device_and_n_grams_have_none(
    flags: dict[str, Any], names: list[str]
) -> None:
    specs = worker_specs(config(**flags))
    assert [spec.name for spec in specs] == names
    for spec in specs[:-1]:
        settings = SsdConfig.model_validate(spec.config["settings"])
        (kind,) = drafters_of(settings)
        assert kind is MODEL
