"""Reading log-probabilities off rows of logits."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ssd.core.logprobs import TokenLogprobs


def token_logprobs(
    logits: Tensor, token_ids: Sequence[int], *, num_top: int
) -> list[TokenLogprobs]:
    """The log-softmax of each row of `[num_rows, vocab]` at its token, and its `num_top` best."""
    if logits.dtype not in (torch.float32, torch.float64):
        logits = logits.float()
    table = logits.log_softmax(dim=-1)
    own = table.gather(1, torch.tensor(token_ids, device=table.device).unsqueeze(1)).squeeze(1)
    top = table.topk(min(num_top, table.shape[1]), dim=-1)
    return [
        TokenLogprobs(logprob, tuple(zip(ids, values, strict=True)))
        for logprob, ids, values in zip(
            own.tolist(), top.indices.tolist(), top.values.tolist(), strict=True
        )
    ]
