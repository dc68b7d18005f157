"""The table of docs/operations.md: speed against plain decoding by acceptance and draft cost.

The unit of time is a verification. Plain decoding makes a token per unit. A round of depth d brings
1 + a + ... + a^d tokens at acceptance a; it takes d x cost + 1 where draft and verify take turns,
and max(d x cost, 1) where they overlap (the paper's equation for SSD without misses).
"""

ACCEPTANCES = (0.5, 0.6, 0.7, 0.8, 0.9)
COSTS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
MAX_DEPTH = 8


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


if __name__ == "__main__":
    print(table())
