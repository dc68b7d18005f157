"""Products of few rows by our own loops, against float64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ssd.engine.projection import (
    _multiplies_by_onednn,
    _Packed,
    arithmetic,
    can_prepack,
    projection,
)
from ssd.engine.row_kernel import RowKernel, build_kernel, row_kernel
from ssd.engine.row_loops import compile_loops

CPU = torch.device("cpu")

pytestmark = pytest.mark.skipif(
    row_kernel() is None, reason="the loops need AVX2 and torch with GNU's OpenMP"
)


@pytest.fixture(scope="module", params=["of this CPU", "AVX2"])
def kernel(request: pytest.FixtureRequest) -> RowKernel:
    kernel = row_kernel()
    if request.param == "AVX2":
        kernel = build_kernel(lanes=8, max_rows=6, cpu="haswell")
    assert kernel is not None
    return kernel


@pytest.fixture(autouse=True)
def _nothing_is_too_small_to_lay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssd.engine.projection._WORTH_PACKING", 0)


def _product(kernel: RowKernel, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return kernel.product(rows, kernel.lay_out(weight))[:, : len(weight)]


@given(
    num_rows=st.integers(0, 40),
    num_in=st.integers(1, 700),
    num_out=st.integers(1, 200),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=150, deadline=None)
def test_a_product_is_that_of_float64_up_to_rounding(
    kernel: RowKernel, num_rows: int, num_in: int, num_out: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(num_rows, num_in, generator=generator)
    weight = torch.randn(num_out, num_in, generator=generator)
    product = _product(kernel, rows, weight)
    exact = rows.double() @ weight.double().T
    # What rounding can do to a sum of so many products, each at most as large as these.
    bound = num_in * 2**-24 * (rows.abs().double() @ weight.abs().double().T)
    assert bool(((product - exact).abs() <= bound + 1e-30).all())


def test_a_rows_result_does_not_depend_on_company(kernel: RowKernel) -> None:
    rows, weight = torch.randn(33, 1000), torch.randn(70, 1000)
    together = _product(kernel, rows, weight)
    for count in range(1, 34):
        assert torch.equal(_product(kernel, rows[:count], weight), together[:count])
        assert torch.equal(_product(kernel, rows[-count:], weight), together[-count:])


@given(
    num_rows=st.integers(1, 40),
    num_in=st.integers(1, 700),
    num_out=st.integers(1, 100),
    scale=st.floats(0.01, 30.0),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=100, deadline=None)
def test_a_gated_product_is_that_of_float64_up_to_rounding(
    kernel: RowKernel, num_rows: int, num_in: int, num_out: int, scale: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(num_rows, num_in, generator=generator)
    gate, up = (torch.randn(num_out, num_in, generator=generator) * scale for _ in range(2))
    gated = kernel.gated(rows, kernel.lay_out_gated(gate, up))[:, :num_out]
    first, second = (rows.double() @ each.double().T for each in (gate, up))
    sizes = [rows.abs().double() @ each.abs().double().T for each in (gate, up)]
    first_bound, second_bound = (num_in * 2**-24 * each for each in sizes)
    # silu never rises faster than 1.1, and its own rounding is a few units of its result
    bound = 1.1 * first_bound * (second.abs() + second_bound) + first.abs() * second_bound
    exact = torch.nn.functional.silu(first) * second
    assert bool(((gated - exact).abs() <= bound + 8 * 2**-24 * exact.abs() + 1e-30).all())


@pytest.mark.parametrize("gate", [-3e38, -1e4, -100.0, -88.0, -1e-30, 0.0, 1e-30, 88.0, 1e4])
def test_a_gate_far_out_is_open_or_shut(kernel: RowKernel, gate: float) -> None:
    panels = kernel.lay_out_gated(torch.tensor([[gate]]), torch.tensor([[2.0]]))
    gated = kernel.gated(torch.ones(1, 1), panels)[0, 0]
    expected = 2.0 * torch.nn.functional.silu(torch.tensor(gate))
    torch.testing.assert_close(gated, expected, rtol=1e-6, atol=1e-36)


def test_a_gated_rows_result_does_not_depend_on_company(kernel: RowKernel) -> None:
    rows, gate, up = torch.randn(33, 500), torch.randn(70, 500), torch.randn(70, 500)
    panels = kernel.lay_out_gated(gate, up)
    together = kernel.gated(rows, panels)
    for count in range(1, 34):
        assert torch.equal(kernel.gated(rows[:count], panels), together[:count])


def test_what_is_not_a_number_stays_so(kernel: RowKernel) -> None:
    rows, weight = torch.randn(3, 100), torch.randn(40, 100)
    rows[1, 7] = torch.nan
    for results in (
        _product(kernel, rows, weight),
        kernel.gated(rows, kernel.lay_out_gated(weight, weight))[:, :40],
    ):
        assert results.isnan().any(dim=1).tolist() == [False, True, False]
        assert results[1].isnan().all()


@pytest.mark.parametrize("rows", [torch.ones(2, 7), torch.ones(2, 8, dtype=torch.float64)])
def test_rows_of_another_shape_or_kind_are_refused(kernel: RowKernel, rows: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="rows are"):
        kernel.product(rows, kernel.lay_out(torch.ones(4, 8)))


def test_threads_change_nothing(kernel: RowKernel) -> None:
    rows, weight = torch.randn(9, 300), torch.randn(1000, 300)  # worth more than one thread
    before = torch.get_num_threads()
    products = []
    try:
        for num_threads in (1, 2, 3):
            torch.set_num_threads(num_threads)
            products.append(_product(kernel, rows, weight))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(products[0], products[1])
    assert torch.equal(products[0], products[2])


def test_rows_need_not_lie_in_one_piece(kernel: RowKernel) -> None:
    wide, weight = torch.randn(5, 128), torch.randn(40, 64)
    half = wide[:, 64:]
    assert torch.equal(_product(kernel, half, weight), _product(kernel, half.clone(), weight))


@pytest.mark.parametrize("biases", [(False, False), (True, True), (False, True)])
def test_layers_that_share_their_input_are_one_product(biases: tuple[bool, bool]) -> None:
    layers = [nn.Linear(48, 24 + 7 * has_bias, bias=has_bias) for has_bias in biases]
    rows = torch.randn(4, 48)
    with torch.inference_mode():
        joined = projection(layers, prepack=True)(rows)
        expected = torch.cat([layer(rows) for layer in layers], dim=1)
    assert joined.is_contiguous()
    torch.testing.assert_close(joined, expected)


def test_without_gnu_openmp_there_are_no_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssd.engine.row_loops._OPENMP", ("no_such_symbol",))
    assert compile_loops(lanes=8, max_rows=2, is_gated=False) is None


def test_other_cpus_use_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    if not _multiplies_by_onednn(torch.float32, CPU):
        pytest.skip("oneDNN packs no weights on this CPU")
    monkeypatch.setattr("ssd.engine.projection.row_kernel", lambda: None)
    layer, rows = nn.Linear(48, 24), torch.randn(4, 48)
    assert can_prepack(torch.float32, CPU)
    assert arithmetic(torch.float32) == "prepacked"
    with torch.inference_mode():
        packed = projection([layer], prepack=True)
        assert isinstance(packed, _Packed)
        torch.testing.assert_close(packed(rows), layer(rows))


def test_where_neither_works_weights_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssd.engine.projection.row_kernel", lambda: None)
    monkeypatch.setattr("ssd.engine.projection._multiplies_by_onednn", lambda *_: False)
    assert not can_prepack(torch.float32, CPU)


def test_the_fingerprint_tells_our_sums_from_others() -> None:
    names = {arithmetic(dtype) for dtype in (torch.float32, torch.bfloat16)}
    assert names == {"streamed", "prepacked"}
