"""The tables of docs/operations.md: speed against plain decoding by acceptance and draft cost.

The unit of time is a verification. Plain decoding makes a token per unit. A round of depth d brings
1 + a + ... + a^d tokens at acceptance a; it takes d x cost + 1 where draft and verify take turns,
and max(d x cost, 1) where they overlap (the paper's equation for SSD without misses).

For pairs of GPUs the cost is that of reading the weights once, at the bandwidth of the data sheets.
"""

from dataclasses import dataclass

ACCEPTANCES = (0.5, 0.6, 0.7, 0.8, 0.9)
COSTS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
MAX_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Gpu:
    """What decoding asks of a card: terabytes a second, and gigabytes that hold the weights."""

    name: str
    bandwidth_tb_s: float
    memory_gb: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Gigabytes of weights that a step reads, in bf16."""

    name: str
    target_gb: float
    draft_gb: float


H200, H100, A100 = Gpu("H200", 4.8, 141), Gpu("H100 SXM", 3.35, 80), Gpu("A100 SXM", 2.04, 80)
L40S, L4 = Gpu("L40S", 0.86, 48), Gpu("L4", 0.30, 24)
PAIRS = (Pair("Qwen3 8B / 0.6B", 16.4, 1.2), Pair("Qwen3 32B / 0.6B", 65.5, 1.2))
GPUS = ((H200, H200), (H200, L40S), (H100, H100), (H100, L40S), (H100, L4), (A100, L40S))
GPUS_OF_SMALL = ((L40S, L40S), (L40S, L4))
TYPICAL_ACCEPTANCE = 0.75


def tokens_per_round(acceptance: float, depth: int) -> float:
    return float(sum(acceptance**position for position in range(depth + 1)))


def best(acceptance: float, cost: float, *, overlaps: bool) -> tuple[float, int]:
    """(tokens per unit of time, depth) at the depth that gives most."""
    return max(
        (
            tokens_per_round(acceptance, depth)
            / (max(depth * cost, 1.0) if overlaps else depth * cost + 1.0),
            depth,
        )
        for depth in range(1, MAX_DEPTH + 1)
    )


def table() -> str:
    """Markdown: this service / plain speculation, each against plain decoding, and the depth."""
    head = "| acceptance | " + " | ".join(f"cost {cost:g}" for cost in COSTS) + " |"
    rule = "|---" * (len(COSTS) + 1) + "|"
    return "\n".join([head, rule, *(_row(acceptance) for acceptance in ACCEPTANCES)])


def _row(acceptance: float) -> str:
    cells = []
    for cost in COSTS:
        ours, depth = best(acceptance, cost, overlaps=True)
        turns, _ = best(acceptance, cost, overlaps=False)
        cells.append(f"**{ours:.1f}** ({turns:.1f}) at {depth}")
    return f"| {acceptance:g} | " + " | ".join(cells) + " |"


def gpu_table() -> str:
    """Markdown: for pairs of cards, the cost, the best depth and both speeds, best first."""
    head = "| models | verifier on | drafter on | cost | this service | turns, one card | gain |"
    rows = [
        (pair, verifier, drafter)
        for pair in PAIRS
        for verifier, drafter in (*GPUS, *GPUS_OF_SMALL)
        if pair.target_gb < verifier.memory_gb
    ]
    return "\n".join([head, "|---" * 7 + "|", *(_gpu_row(*each) for each in rows)])


def _gpu_row(pair: Pair, verifier: Gpu, drafter: Gpu) -> str:
    verify_ms = pair.target_gb / verifier.bandwidth_tb_s
    cost = pair.draft_gb / drafter.bandwidth_tb_s / verify_ms
    on_one = pair.draft_gb / verifier.bandwidth_tb_s / verify_ms
    ours, depth = best(TYPICAL_ACCEPTANCE, cost, overlaps=True)
    turns, _ = best(TYPICAL_ACCEPTANCE, on_one, overlaps=False)
    return (
        f"| {pair.name} | {verifier.name} | {drafter.name} | {cost:.2f} "
        f"| **{ours:.1f}** at {depth} | {turns:.1f} | {ours / turns - 1:+.0%} |"
    )


if __name__ == "__main__":
    print(table(), gpu_table(), sep="\n\n")
