"""Every way to draft, as a cluster of tests serves it."""

from pathlib import Path
from typing import Any

from ssd.core.drafter_kind import DrafterKind
from ssd.engine.loading import LoadOptions, load_model
from tests.services.cluster import Cluster

NGRAM: dict[str, Any] = {"size_n": 4, "shortest": 1}
NAMED: dict[str, dict[str, Any]] = {
    "model": {"speculation": {"drafters": ["model"]}},
    "self": {"speculation": {"drafters": ["self"]}, "models": {"draft_layers": 1}},
    "ngram": {"speculation": {"drafters": ["ngram"]}, "ngram": NGRAM},
    "ngram beside": {
        "speculation": {"drafters": ["ngram"]},
        "ngram": NGRAM | {"place": "process"},
    },
    "map-k": {"speculation": {"drafters": ["ngram"]}, "ngram": NGRAM | {"form": "map-k"}},
    "map-k4v": {"speculation": {"drafters": ["ngram"]}, "ngram": NGRAM | {"form": "map-k4v"}},
    "model and ngram": {"speculation": {"drafters": ["model", "ngram"]}, "ngram": NGRAM},
}


async def serve(
    cluster: Cluster, name: str, target_folder: Path, draft_folder: Path, *, dtype: str = "fp64"
) -> None:
    """A pair with the drafters of this name."""
    target = load_model(str(target_folder), dtype=dtype)
    await cluster.coordinate(**NAMED[name])
    await cluster.verify(target)
    if name == "self":
        first_layer = load_model(str(target_folder), dtype=dtype, options=LoadOptions(layers=1))
        await cluster.draft(first_layer, kind=DrafterKind.SELF)
    elif name == "ngram beside":
        await cluster.draft_ngrams(target)
    elif "model" in name:
        await cluster.draft(load_model(str(draft_folder), dtype=dtype))
