import math
from collections.abc import Sequence

import pytest
import torch

from ssd.core.sampling_params import SamplingParams
from ssd.sampling import divide_by_temperature, process_logits
from ssd.sampling.processors import _nucleus_sizes

GREEDY = SamplingParams(temperature=0.0, top_k=1, top_p=0.1, min_p=0.5)


def slow_process(logits: Sequence[float], params: SamplingParams) -> list[float]:
    """The definitions of the module read aloud, for one row, with a sorted list."""
    if params.is_greedy:
        return list(logits)
    largest = max(logits)
    mass = [math.exp((logit - largest) / params.temperature) for logit in logits]
    ranked = sorted(range(len(logits)), key=lambda token_id: (-logits[token_id], token_id))
    kept = [token_id for token_id in ranked if mass[token_id] >= params.min_p]
    if params.top_k:
        kept = kept[: params.top_k]
    if params.top_p < 1.0:
        total = sum(mass[token_id] for token_id in kept)
        reached = 0.0
        nucleus: list[int] = []
        for token_id in kept:
            if nucleus and reached >= params.top_p * total:
                break
            nucleus.append(token_id)
            reached += mass[token_id]
        kept = nucleus
    chosen = set(kept)
    return [logit if token_id in chosen else -math.inf for token_id, logit in enumerate(logits)]


def process_row(logits: Sequence[float], params: SamplingParams) -> list[float]:
    row: list[float] = process_logits(torch.tensor([logits]).double(), [params])[0].tolist()
    return row


CUTS = [
    SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    for temperature in (0.5, 1.0, 1.7)
    for top_k in (0, 1, 3, 40)
    for top_p in (1.0, 0.9, 0.3, 1e-6)
    for min_p in (0.0, 0.05, 0.7)
]


@pytest.mark.parametrize("vocab_size", [1, 2, 40, 41, 700])
def test_equals_the_slow_reference(vocab_size: int) -> None:
    generator = torch.Generator().manual_seed(vocab_size)
    logits = 2.0 * torch.randn(len(CUTS), vocab_size, generator=generator, dtype=torch.float64)
    expected = [slow_process(row, cut) for row, cut in zip(logits.tolist(), CUTS, strict=True)]
    assert process_logits(logits, CUTS).tolist() == expected


@pytest.mark.parametrize("spread", [0.5, 3.0, 12.0])
def test_long_rows_equal_the_slow_reference(spread: float) -> None:
    generator = torch.Generator().manual_seed(7)
    cuts = [
        *CUTS[::3],
        SamplingParams(top_k=300, top_p=0.99),
        SamplingParams(top_k=5000),
        SamplingParams(top_k=30_000, top_p=0.9),
    ]
    logits = spread * torch.randn(len(cuts), 20_011, generator=generator, dtype=torch.float64)
    for row, cut in enumerate(cuts):
        expected = slow_process(logits[row].tolist(), cut)
        kept = {each for each, logit in enumerate(expected) if logit > -math.inf}
        actual = process_logits(logits[row : row + 1], [cut])[0]
        assert set((actual > -math.inf).nonzero().flatten().tolist()) == kept, cut
        assert torch.equal(actual[list(kept)], logits[row, list(kept)])


def test_equal_logits_of_long_rows_stay_lowest_ids_first() -> None:
    logits = torch.zeros(2, 8192, dtype=torch.float64)
    logits[0, 4000:] = 1.0
    logits[1, ::2] = 1.0
    cuts = [SamplingParams(top_k=3), SamplingParams(top_k=40)]
    for row, first in enumerate(process_logits(logits, cuts)):
        kept = (first > -math.inf).nonzero().flatten().tolist()
        assert kept == [[4000, 4001, 4002], list(range(0, 80, 2))][row]


def test_long_rows_share_a_batch_and_nothing_else() -> None:
    generator = torch.Generator().manual_seed(9)
    logits = 3.0 * torch.randn(4, 8192, generator=generator)
    cuts = [GREEDY, SamplingParams(), SamplingParams(top_k=7), SamplingParams(top_p=0.3, min_p=0.1)]
    together = process_logits(logits, cuts)
    for row, cut in enumerate(cuts):
        assert torch.equal(process_logits(logits[row : row + 1], [cut])[0], together[row])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_long_row_keeps_what_is_no_number(bad: float) -> None:
    logits = torch.zeros(1, 8192)
    logits[0, 5000] = bad
    kept = process_logits(logits, [SamplingParams(top_k=5, top_p=0.9)])[0, 5000]
    assert math.isnan(kept) if math.isnan(bad) else kept == bad


def test_equals_the_slow_reference_with_ties() -> None:
    generator = torch.Generator().manual_seed(5)
    # Three levels a factor of 1/4, 1/2 apart leave no rounding in any share that is compared.
    levels = torch.log(torch.tensor([1.0, 0.5, 0.25], dtype=torch.float64))
    cuts = [
        SamplingParams(temperature=1.0, top_k=top_k, top_p=top_p, min_p=min_p)
        for top_k in (0, 1, 2, 5, 9)
        for top_p in (1.0, 0.61, 0.17)
        for min_p in (0.0, 0.3, 0.6)
    ]
    for _ in range(20):
        picks = torch.randint(0, 3, (len(cuts), 12), generator=generator)
        logits = levels[picks]
        expected = [slow_process(row, cut) for row, cut in zip(logits.tolist(), cuts, strict=True)]
        assert process_logits(logits, cuts).tolist() == expected


def test_top_k_keeps_exactly_k_of_equal_logits_lowest_ids_first() -> None:
    kept = process_row([1.0, 2.0, 1.0, 2.0, 1.0, 1.0], SamplingParams(top_k=4))
    assert kept == [1.0, 2.0, 1.0, 2.0, -math.inf, -math.inf]


def test_top_p_keeps_the_lowest_ids_of_equal_logits() -> None:
    assert process_row([0.0] * 8, SamplingParams(top_p=0.25)) == [0.0] * 2 + [-math.inf] * 6


def test_top_p_keeps_the_token_that_reaches_the_share() -> None:
    logits = [math.log(share) for share in (0.1, 0.5, 0.4)]
    kept = process_row(logits, SamplingParams(top_p=0.6))
    assert [logit > -math.inf for logit in kept] == [False, True, True]


def test_min_p_keeps_a_token_at_its_limit() -> None:
    kept = process_row([0.0, -10.0, -11.0], SamplingParams(min_p=math.exp(-10.5)))
    assert kept == [0.0, -10.0, -math.inf]


def test_top_p_is_taken_after_temperature() -> None:
    logits = [0.0, -1.0, -2.0]  # shares .67 .24 .09 at 1, .87 .12 .02 at 0.5
    assert process_row(logits, SamplingParams(temperature=1.0, top_p=0.8))[1] == -1.0
    assert process_row(logits, SamplingParams(temperature=0.5, top_p=0.8))[1] == -math.inf


def test_top_p_shares_what_top_k_left() -> None:
    logits = [math.log(share) for share in (0.4, 0.3, 0.2, 0.1)]
    # 0.4 of everything is below 0.5, 0.4 of 0.7 is not.
    assert process_row(logits, SamplingParams(top_k=2, top_p=0.5))[1] == -math.inf
    assert process_row(logits, SamplingParams(top_k=0, top_p=0.5))[1] > -math.inf


@pytest.mark.parametrize("top_k", [0, 8, 9, 10**12])
def test_top_k_of_the_vocabulary_or_more_cuts_nothing(top_k: int) -> None:
    logits = torch.arange(16.0).reshape(2, 8)
    params = [SamplingParams(top_k=top_k)] * 2
    assert process_logits(logits, params) is logits


def test_rows_without_cuts_cost_nothing() -> None:
    logits = torch.randn(3, 8)
    params = [GREEDY, SamplingParams(temperature=0.3), SamplingParams()]
    assert process_logits(logits, params) is logits


def test_the_argument_is_left_alone() -> None:
    logits = torch.randn(len(CUTS), 50)
    before = logits.clone()
    process_logits(logits, CUTS)
    assert torch.equal(logits, before)


def test_a_row_does_not_depend_on_its_batch() -> None:
    logits = torch.randn(len(CUTS) + 1, 700, generator=torch.Generator().manual_seed(1)) / 4
    params = [*CUTS, GREEDY]
    together = process_logits(logits, params)
    for row, (row_logits, row_params) in enumerate(zip(logits, params, strict=True)):
        alone = process_logits(row_logits.unsqueeze(0), [row_params])
        assert torch.equal(alone[0], together[row])


def test_a_nucleus_longer_than_the_head_is_found_by_sorting() -> None:
    probabilities = torch.rand(4, 600, generator=torch.Generator().manual_seed(2)).double()
    probabilities /= probabilities.sum(dim=-1, keepdim=True)
    top_ps = torch.tensor([[0.01], [0.5], [0.999], [0.2]])
    sizes = _nucleus_sizes(probabilities, top_ps, 600)
    assert torch.equal(_nucleus_sizes(probabilities, top_ps, 16), sizes)
    assert int(sizes.min()) < 16 < int(sizes.max())


@pytest.mark.parametrize("params", [*CUTS[::5], GREEDY])
def test_nan_survives_every_cut(params: SamplingParams) -> None:
    logits = torch.tensor([[0.5, math.nan, 2.0, 1.0, -1.0]])
    assert bool(process_logits(logits, [params]).isnan().any())


@pytest.mark.parametrize("params", CUTS[::5])
def test_banned_tokens_stay_banned(params: SamplingParams) -> None:
    processed = process_row([-math.inf, 1.0, -math.inf, 1.0], params)
    assert processed[0] == processed[2] == -math.inf
    assert processed[1] == 1.0


def test_one_row_of_params_per_row_of_logits() -> None:
    with pytest.raises(ValueError, match="2 rows of logits, but 3 params"):
        process_logits(torch.zeros(2, 4), [SamplingParams()] * 3)


def test_a_divided_row_does_not_depend_on_its_batch() -> None:
    logits = torch.randn(3, 100, generator=torch.Generator().manual_seed(3))
    params = [SamplingParams(temperature=0.7), GREEDY, SamplingParams(temperature=1.3)]
    together = divide_by_temperature(logits, params)
    alone = [divide_by_temperature(logits[i : i + 1], params[i : i + 1]) for i in range(3)]
    assert torch.equal(together, torch.cat(alone))
    assert torch.equal(together[1], logits[1])
