"""A Llama's folder as the GGUF file that llama.cpp runs, every weight in float32.

llama.cpp turns neighbouring numbers of a head (0 and 1, 2 and 3, ...) by one angle where
transformers turns a number of the first half with its counterpart in the second. So the rows of the
query and key projections are written in another order, and both compute the same.
"""

from pathlib import Path

import gguf

from benchmarks.peers.llama_folder import LlamaFolder, Weight

_LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def export_gguf(folder: Path, file: Path) -> None:
    """Write the model and tokenizer of a folder as one file."""
    llama = LlamaFolder.read(folder)
    writer = gguf.GGUFWriter(file, "llama")
    _add_shape(writer, llama)
    _add_tokenizer(writer, llama)
    _add_weights(writer, llama)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_shape(writer: gguf.GGUFWriter, llama: LlamaFolder) -> None:
    config = llama.config
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(llama.num_layers)
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(llama.num_heads)
    writer.add_head_count_kv(llama.num_kv_heads)
    writer.add_key_length(llama.head_dim)
    writer.add_value_length(llama.head_dim)
    writer.add_rope_dimension_count(llama.head_dim)
    writer.add_rope_freq_base(llama.rope_theta)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def _add_tokenizer(writer: gguf.GGUFWriter, llama: LlamaFolder) -> None:
    """A byte-level BPE. The benchmark speaks in ids; llama.cpp wants a vocabulary all the same."""
    model = llama.tokenizer["model"]
    special = {each["id"] for each in llama.tokenizer["added_tokens"]}
    by_id = {index: token for token, index in model["vocab"].items()}
    by_id |= {each["id"]: each["content"] for each in llama.tokenizer["added_tokens"]}
    vocab_size = llama.config["vocab_size"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([by_id.get(index, f"<unused_{index}>") for index in range(vocab_size)])
    writer.add_token_types([_kind(index, special, by_id) for index in range(vocab_size)])
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.add_eos_token_id(llama.config["eos_token_id"])
    writer.add_add_bos_token(False)


def _kind(index: int, special: set[int], by_id: dict[int, str]) -> gguf.TokenType:
    if index in special:
        return gguf.TokenType.CONTROL
    return gguf.TokenType.NORMAL if index in by_id else gguf.TokenType.UNUSED


def _add_weights(writer: gguf.GGUFWriter, llama: LlamaFolder) -> None:
    writer.add_tensor("token_embd.weight", llama.embeddings)
    writer.add_tensor("output_norm.weight", llama.weights["model.norm.weight"])
    if "lm_head.weight" in llama.weights:
        writer.add_tensor("output.weight", llama.head)
    for index in range(llama.num_layers):
        for name, theirs in _LAYER_NAMES.items():
            weight = llama.layer(index, name)
            if theirs == "attn_q":
                weight = interleaved(weight, llama.num_heads)
            elif theirs == "attn_k":
                weight = interleaved(weight, llama.num_kv_heads)
            writer.add_tensor(f"blk.{index}.{theirs}.weight", weight)


def interleaved(weight: Weight, num_heads: int) -> Weight:
    """[heads x dim, in]: in each head the rows 0, dim/2, 1, dim/2 + 1, ... of what came in."""
    halves = weight.reshape(num_heads, 2, -1, weight.shape[1])  # [heads, half, dim / 2, in]
    mixed: Weight = halves.swapaxes(1, 2).reshape(weight.shape)
    return mixed
