"""A padded pair says what it said, at another price."""

from pathlib import Path

import torch

from ssd.engine.loading import load_model
from ssd.service_bench.padded_pair import PairShop
from ssd.service_bench.regime import Widths
from tests.engine.row_groups import chain
from tests.models.tiny_pair import write_tiny_pair

PROMPT = (5, 17, 3, 44, 60, 8)


def test_what_is_written_says_what_it_said_and_is_wider(tmp_path: Path) -> None:
    source = write_tiny_pair(tmp_path / "source")
    shop = PairShop(source.target, source.draft, tmp_path, dtype="fp64", core=None)
    pair = shop.padded(Widths(256, 128))
    assert pair.cost.verify_ms > 0
    assert pair.cost.draft_step_ms > 0
    for made, given in ((pair.target, source.target), (pair.draft, source.draft)):
        padded, plain = load_model(str(made), dtype="fp64"), load_model(str(given), dtype="fp64")
        assert padded.weight_bytes > plain.weight_bytes
        assert padded.vocabulary == plain.vocabulary
        torch.testing.assert_close(
            padded.runner.forward([chain(PROMPT)]),
            plain.runner.forward([chain(PROMPT)]),
            rtol=1e-12,
            atol=1e-12,
        )
