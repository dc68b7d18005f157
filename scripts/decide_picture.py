"""Draws docs/images/decide.svg: what speculation brings, by the simulator, over what decides it."""

from pathlib import Path

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ssd.advise import DEVICES, PlacedModel, expected_acceptance, shape_of
from ssd.advise.expectation import Workload
from ssd.advise.speed import drafted_speeds, plain_speed
from ssd.core.mode import Mode
from ssd.simulate import Costs, Scenario, SyntheticText, simulate

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "decide.svg"

ACCEPTANCES = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9)
STEPS = (0.05, 0.1, 0.2, 0.35, 0.6)
BATCHES = (1, 4, 16, 64)
VERIFY_S = 0.020
NUM_TOKENS = 192

_LLAMA = {
    "model_type": "llama",
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "num_key_value_heads": 8,
}
_SIZES = {
    "1B": (2048, 8192, 16, 32, {"head_dim": 64, "tie_word_embeddings": True}),
    "8B": (4096, 14336, 32, 32, {}),
    "70B": (8192, 28672, 80, 64, {}),
}


def main() -> None:
    rcParams["svg.hashsalt"] = "ssd"  # the same picture from the same figures
    rcParams["svg.fonttype"] = "none"
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    _map(left)
    _batches(right)
    figure.savefig(PICTURE, metadata={"Date": None})


def speed_up(acceptance: float, step: float) -> float:
    """Of mode ssd over plain decoding: one text, a growth step of so much of a verification."""
    costs = Costs(VERIFY_S, 0.0, step * VERIFY_S, 0.0, glue_s=0.3e-3, overhead_s=0.5e-3)
    scenario = Scenario(costs, SyntheticText(acceptance), Mode.SSD, num_tokens=NUM_TOKENS)
    return simulate(scenario).tokens_per_s * (VERIFY_S + costs.overhead_s)


def _map(axes: Axes) -> None:
    values = [[speed_up(acceptance, step) for acceptance in ACCEPTANCES] for step in STEPS]
    axes.imshow(values, cmap="RdYlGn", vmin=0.4, vmax=3.0, aspect="auto", origin="lower")
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            axes.text(column, row, f"{value:.1f}", ha="center", va="center", fontsize=9)
    axes.set_xticks(range(len(ACCEPTANCES)), [f"{each:g}" for each in ACCEPTANCES])
    axes.set_yticks(range(len(STEPS)), [f"{each:g}" for each in STEPS])
    axes.set_xlabel("acceptance: how often the draft's first guess is right")
    axes.set_ylabel("growth step / verification")
    axes.set_title("Mode ssd, times plain decoding, one text", fontsize=10)


def _batches(axes: Axes) -> None:
    for size, workload in (
        ("70B", Workload.CODE),
        ("70B", Workload.CREATIVE),
        ("8B", Workload.CODE),
        ("8B", Workload.CREATIVE),
    ):
        curve = [_by_batch(size, workload, batch) for batch in BATCHES]
        style = "-" if workload is Workload.CODE else "--"
        axes.plot(range(len(BATCHES)), curve, style, marker="o", label=f"{size} / 1B, {workload}")
    axes.axhline(1.0, color="grey", linewidth=1)
    axes.set_xticks(range(len(BATCHES)), [str(each) for each in BATCHES])
    axes.set_xlabel("texts at once")
    axes.set_ylabel("times plain decoding")
    axes.set_ylim(bottom=0.0)
    axes.set_title("Llama 3 on H200, as ssd advise expects it", fontsize=10)
    axes.legend(fontsize=8, frameon=False)


def _by_batch(size: str, workload: Workload, batch: int) -> float:
    target, draft = (_placed(each, batch) for each in (size, "1B"))
    acceptance = expected_acceptance(workload, temperature=0.0, is_same_family=True)
    _, ssd, _ = drafted_speeds(target, draft, acceptance=acceptance, max_nodes=8)
    return ssd.tokens_per_s / plain_speed(target).tokens_per_s


def _placed(size: str, batch: int) -> PlacedModel:
    hidden, inner, layers, heads, more = _SIZES[size]
    sizes = {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
    }
    shape = shape_of(size, {**_LLAMA, **sizes, **more})
    return PlacedModel(shape, DEVICES["h200"], "bf16", batch, context=2048, tree_slots=9)


if __name__ == "__main__":
    main()
