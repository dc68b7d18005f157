"""Start a small Llama with the two attention heads that copying needs.

Copying is an induction circuit: a head of the first layer tells each token what stood before it,
and a head of the second looks for earlier tokens that stood after the present one, and raises
what it finds. Left to itself a model of this size finds the circuit only after more tokens than
our training time holds, and tells tales whose hero changes name in every sentence. Both heads
can be written down, so we write them down and let training refine them.

Hidden dimensions, as the two heads use them (d is the hidden size):

    0           the same for every token, so that a head can attend by distance alone
    1 .. d/2    the token itself, as embedded
    5d/8 ..     the token before it, as the first head writes it, head_dim wide

Rotary pairs of high frequency tell near distances apart; those of low frequency hardly turn
within a tale and so carry content. The first head uses the former, the second the latter.
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaAttention

ROPE_THETA = 100_000.0
CONSTANT = 8.0  # size of dimension 0, in standard deviations of the others
SHARPNESS = 5.5  # how far the previous token's score is above its neighbours'
MATCH_GAIN = 2.1
NOTE_GAIN = 4.0
RAISE_GAIN = 1.5
RESIDUAL_SHARE = 0.03  # other heads and MLPs start quiet, so as not to drown the circuit


@torch.no_grad()
def plant_copying_heads(model: LlamaForCausalLM, *, seed: int) -> None:
    """Overwrite head 0 of the first two layers with an induction circuit."""
    generator = torch.Generator().manual_seed(seed)
    deviation = model.config.initializer_range
    model.model.embed_tokens.weight[:, 0] = CONSTANT * deviation
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight *= RESIDUAL_SHARE
        layer.mlp.down_proj.weight *= RESIDUAL_SHARE
    hidden = model.config.hidden_size
    head_dim = hidden // model.config.num_attention_heads
    token = _token_projection(hidden, head_dim, generator)
    _plant_previous_token_head(model.model.layers[0].self_attn, token, model.config)
    _plant_matching_head(model.model.layers[1].self_attn, token, head_dim)


def _token_projection(hidden: int, head_dim: int, generator: torch.Generator) -> torch.Tensor:
    """Orthonormal directions among the token's own dimensions.  # [head_dim, hidden]"""
    square = torch.randn(hidden // 2, hidden // 2, generator=generator)
    directions = torch.linalg.qr(square).Q[:head_dim]
    projection = torch.zeros(head_dim, hidden)
    projection[:, 1 : 1 + hidden // 2] = directions
    return projection


def _plant_previous_token_head(
    attention: LlamaAttention, token: torch.Tensor, config: LlamaConfig
) -> None:
    """Attend one back: the key is turned one position further than the query."""
    head_dim, hidden = token.shape
    half = head_dim // 2
    angles = ROPE_THETA ** (-torch.arange(half) / half)
    angles = angles[: half * 5 // 16]  # the high frequencies
    near = slice(0, len(angles))
    far = slice(half, half + len(angles))
    constant_squared = CONSTANT**2 * hidden / (CONSTANT**2 + hidden)  # after the norm
    drop = (1 - angles.cos()).sum()  # of the score, one position off
    size = (SHARPNESS * head_dim**0.5 / (constant_squared * drop)).sqrt()
    query, key = attention.q_proj.weight, attention.k_proj.weight
    query[:head_dim] = 0
    key[:head_dim] = 0
    query[near, 0] = size
    key[near, 0] = size * angles.cos()
    key[far, 0] = size * angles.sin()
    attention.v_proj.weight[:head_dim] = token
    notes = slice(5 * hidden // 8, 5 * hidden // 8 + head_dim)
    attention.o_proj.weight[:, :head_dim] = 0
    note = NOTE_GAIN * config.initializer_range
    attention.o_proj.weight[notes, :head_dim] = note * torch.eye(head_dim)


def _plant_matching_head(attention: LlamaAttention, token: torch.Tensor, head_dim: int) -> None:
    """Find tokens that stood after this one, and raise their logits."""
    hidden = token.shape[1]
    half = head_dim // 2
    slow = torch.arange(head_dim) % half >= half // 2  # the low frequencies
    notes = torch.zeros(head_dim, hidden)
    notes[torch.arange(head_dim), 5 * hidden // 8 + torch.arange(head_dim)] = 1.0
    attention.q_proj.weight[:head_dim] = MATCH_GAIN * token * slow[:, None]
    attention.k_proj.weight[:head_dim] = MATCH_GAIN * notes * slow[:, None]
    attention.v_proj.weight[:head_dim] = token
    attention.o_proj.weight[:, :head_dim] = RAISE_GAIN * token.T
