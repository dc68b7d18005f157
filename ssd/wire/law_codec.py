"""What rule `ratio` adds to expansions: how many proposals they have, and the law of each.

Other expansions have none of these columns and cost no byte more.
"""

from collections.abc import Sequence
from dataclasses import replace

from ssd.core.errors import ProtocolError
from ssd.core.expansion import Expansion
from ssd.core.sparse_law import SparseLaw
from ssd.v1 import drafter_pb2

_WORD = 4  # bytes of an id, and of a weight


def encode_laws(encoded: drafter_pb2.Grow, expansions: Sequence[Expansion]) -> None:
    """Fill in the columns; those of one session are all counted, or none is."""
    if not any(each.num_proposals is not None for each in expansions):
        return
    counts = [each.num_proposals for each in expansions]
    encoded.num_proposals.extend(count for count in counts if count is not None)
    laws = [each.law for each in expansions]
    if any(law is not None for law in laws):
        encoded.law_lens.extend(0 if law is None else law.num_ids for law in laws)
        encoded.law_token_ids = b"".join(law.token_ids for law in laws if law is not None)
        encoded.law_weights = b"".join(law.weights for law in laws if law is not None)


def decode_laws(
    message: drafter_pb2.Grow, expansions: tuple[Expansion, ...]
) -> tuple[Expansion, ...]:
    """Raises ProtocolError when columns differ in length or laws are miscounted."""
    counts: Sequence[int] = message.num_proposals
    if not counts:
        return expansions
    lengths = message.law_lens or [0] * len(counts)
    if not len(counts) == len(lengths) == len(expansions):
        raise ProtocolError(
            f"{len(counts)} counts of proposals and {len(lengths)} laws for "
            f"{len(expansions)} expansions"
        )
    num_bytes = _WORD * sum(lengths)
    if not len(message.law_token_ids) == len(message.law_weights) == num_bytes:
        raise ProtocolError(
            f"laws of {num_bytes} bytes announced, {len(message.law_token_ids)} of ids and "
            f"{len(message.law_weights)} of weights sent"
        )
    decoded, start = [], 0
    for expansion, count, length in zip(expansions, counts, lengths, strict=True):
        end = start + _WORD * length
        ids, weights = message.law_token_ids[start:end], message.law_weights[start:end]
        law = SparseLaw(ids, weights) if length else None
        decoded.append(replace(expansion, num_proposals=count, law=law))
        start = end
    return tuple(decoded)
