"""What several drafters say of one place, as one expansion.

Each says what it expects as if it were alone. Where two name the same token each is another reason
for it, so the doubts multiply; where they name different tokens all of them cannot be right, so
estimates that add up to more than 1 are scaled down. That is a first guess: which of them agree is
kept beside every candidate, and the verifier counts each case apart (`ssd.core.source_rates`).
"""

from ssd.core.expansion import Expansion


def joined(known: Expansion, other: Expansion) -> Expansion:
    """Both, candidates best first; what one kind of drafter says twice counts once."""
    if not known.parts and known.source is other.source:
        return _union(known, other)
    parts = {part.source: part for part in known.parts or (known,)}
    mine = parts.get(other.source)
    said = other if mine is None else _union(mine, other)
    if said is mine:
        return known
    parts[other.source] = said
    return _join(tuple(parts.values()))


def _union(known: Expansion, other: Expansion) -> Expansion:
    """Of one kind of drafter: only new candidates are taken."""
    fresh = [
        (token_id, estimate)
        for token_id, estimate in zip(other.token_ids, other.estimates, strict=True)
        if token_id not in known.token_ids
    ]
    if not fresh:
        return known
    both = [*zip(known.token_ids, known.estimates, strict=True), *fresh]
    both.sort(key=lambda candidate: -candidate[1])
    return Expansion(
        key=known.key,
        position=known.position,
        token_ids=tuple(token_id for token_id, _ in both),
        estimates=tuple(estimate for _, estimate in both),
        step=known.step,
        num_proposals=known.num_proposals,
        source=known.source,
    )


def _join(parts: tuple[Expansion, ...]) -> Expansion:
    doubts: dict[int, float] = {}
    origins: dict[int, int] = {}
    proposed: set[int] = set()
    for part in parts:
        proposed.update(part.proposals)
        for token_id, estimate in zip(part.token_ids, part.estimates, strict=True):
            doubts[token_id] = doubts.get(token_id, 1.0) * (1.0 - estimate)
            origins[token_id] = origins.get(token_id, 0) | part.source.bit
    estimates = {token_id: 1.0 - doubt for token_id, doubt in doubts.items()}
    scale = max(sum(estimates.values()), 1.0)
    ranked = sorted(
        estimates, key=lambda token_id: (token_id not in proposed, -estimates[token_id])
    )
    return Expansion(
        key=parts[0].key,
        position=parts[0].position,
        token_ids=tuple(ranked),
        estimates=tuple(estimates[token_id] / scale for token_id in ranked),
        step=max(part.step for part in parts),
        num_proposals=None if len(proposed) == len(ranked) else len(proposed),
        source=parts[0].source,
        parts=parts,
        origins=tuple(origins[token_id] for token_id in ranked),
    )
