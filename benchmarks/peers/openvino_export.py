"""A Llama's folder as the OpenVINO model that OpenVINO GenAI runs, every weight in float32.

The graph is what OpenVINO GenAI expects of a language model: input_ids, attention_mask,
position_ids and beam_idx in, logits out, keys and values as state. Its pipeline with continuous
batching, which alone drafts with a second model, replaces attention and state by its paged
attention.
"""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from openvino.op.util import Variable, VariableInfo
from openvino_tokenizers import convert_tokenizer
from transformers import AutoTokenizer

from benchmarks.peers.llama_folder import LlamaFolder, Weight

_COPIED = ("config.json", "generation_config.json")


def export_openvino(folder: Path, out: Path) -> None:
    """Write openvino_model.xml and .bin into `out`, and what the pipeline reads beside them."""
    out.mkdir(parents=True, exist_ok=True)
    model = openvino_model(LlamaFolder.read(folder))
    ov.save_model(model, out / "openvino_model.xml", compress_to_fp16=False)
    for name in _COPIED:
        shutil.copyfile(folder / name, out / name)
    _export_tokenizer(folder, out)


def _export_tokenizer(folder: Path, out: Path) -> None:
    """The pipeline does not start without one, though the benchmark speaks in ids."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    parts = convert_tokenizer(tokenizer, with_detokenizer=True)
    for part, name in zip(parts, ("tokenizer", "detokenizer"), strict=True):
        ov.save_model(part, out / f"openvino_{name}.xml")


def openvino_model(llama: LlamaFolder) -> ov.Model:
    """The graph of a Llama with its weights."""
    graph = _Graph(llama)
    hidden = ops.gather(ops.constant(llama.embeddings), graph.input_ids, _ints(0))
    for index in range(llama.num_layers):
        hidden = graph.layer(index, hidden)
    hidden = graph.norm(hidden, llama.weights["model.norm.weight"])
    logits = graph.linear(hidden, llama.head)
    logits.output(0).set_names({"logits"})
    result = ops.result(logits)
    inputs = [graph.input_ids, graph.attention_mask, graph.position_ids, graph.beam_idx]
    return ov.Model([result], graph.writes, inputs, "llama")


class _Graph:
    """Builds the graph layer by layer; `writes` collects what ends a step's keys and values."""

    def __init__(self, llama: LlamaFolder) -> None:
        self._llama = llama
        self.input_ids = _parameter("input_ids", np.int64, [-1, -1])
        self.attention_mask = _parameter("attention_mask", np.int64, [-1, -1])
        self.position_ids = _parameter("position_ids", np.int64, [-1, -1])
        self.beam_idx = _parameter("beam_idx", np.int32, [-1])
        self.writes: list[Any] = []
        self._batch = _dimension(self.input_ids, 0)
        self._cosines, self._sines = self._angles()
        self._mask = self._causal_mask()

    def layer(self, index: int, hidden: Any) -> Any:
        """[batch, rows, hidden] -> the same, after attention and MLP."""
        attention_norm = self._llama.layer(index, "input_layernorm")
        hidden = ops.add(hidden, self._attention(index, self.norm(hidden, attention_norm)))
        mlp_norm = self._llama.layer(index, "post_attention_layernorm")
        return ops.add(hidden, self._mlp(index, self.norm(hidden, mlp_norm)))

    def norm(self, hidden: Any, weight: Weight) -> Any:
        """Root mean square norm, in the form that the runtime fuses."""
        square = ops.power(hidden, _floats(2.0))
        mean = ops.reduce_mean(square, _ints(-1), keep_dims=True)
        root = ops.sqrt(ops.add(mean, _floats(self._llama.config["rms_norm_eps"])))
        scaled = ops.multiply(hidden, ops.divide(_floats(1.0), root))
        return ops.multiply(scaled, ops.constant(weight.reshape(1, 1, -1)))

    def linear(self, hidden: Any, weight: Weight) -> Any:
        return ops.matmul(hidden, ops.constant(weight), transpose_a=False, transpose_b=True)

    def _mlp(self, index: int, hidden: Any) -> Any:
        gate = self.linear(hidden, self._llama.layer(index, "mlp.gate_proj"))
        up = self.linear(hidden, self._llama.layer(index, "mlp.up_proj"))
        down = self._llama.layer(index, "mlp.down_proj")
        return self.linear(ops.multiply(ops.swish(gate), up), down)

    def _attention(self, index: int, hidden: Any) -> Any:
        llama = self._llama
        query = self._turned(self._heads(index, hidden, "q_proj", llama.num_heads))
        keys = self._turned(self._heads(index, hidden, "k_proj", llama.num_kv_heads))
        values = self._heads(index, hidden, "v_proj", llama.num_kv_heads)
        keys = self._repeated(self._with_past(f"past_key_values.{index}.key", keys))
        values = self._repeated(self._with_past(f"past_key_values.{index}.value", values))
        mixed = ops.scaled_dot_product_attention(query, keys, values, self._mask, causal=False)
        rows = ops.transpose(mixed, _ints([0, 2, 1, 3]))
        joined = ops.reshape(rows, _ints([0, 0, -1]), special_zero=True)
        return self.linear(joined, llama.layer(index, "self_attn.o_proj"))

    def _heads(self, index: int, hidden: Any, name: str, num_heads: int) -> Any:
        """[batch, heads, rows, dim]"""
        flat = self.linear(hidden, self._llama.layer(index, f"self_attn.{name}"))
        shape = _ints([0, 0, num_heads, self._llama.head_dim])
        return ops.transpose(ops.reshape(flat, shape, special_zero=True), _ints([0, 2, 1, 3]))

    def _turned(self, heads: Any) -> Any:
        """Rotary embedding: halves of a head turn together."""
        half = self._llama.head_dim // 2
        first, second = ops.split(heads, _ints(-1), num_splits=2).outputs()
        assert half * 2 == self._llama.head_dim, "heads have an even size"
        minus = ops.multiply(second, _floats(-1.0))
        swapped = ops.concat([minus, first], axis=-1)
        return ops.add(ops.multiply(heads, self._cosines), ops.multiply(swapped, self._sines))

    def _angles(self) -> tuple[Any, Any]:
        """Cosines and sines [batch, 1, rows, dim] of the positions."""
        dim = self._llama.head_dim
        steps = self._llama.rope_theta ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)
        positions = ops.convert(ops.unsqueeze(self.position_ids, _ints([1, 3])), np.float32)
        frequencies = ops.constant(steps.astype(np.float32).reshape(1, 1, 1, -1))
        angles = ops.multiply(positions, frequencies)
        both = ops.concat([angles, angles], axis=-1)
        return ops.cos(both), ops.sin(both)

    def _with_past(self, name: str, new: Any) -> Any:
        """The state of that name with the new rows behind it, [batch, heads, slots, dim]."""
        shape = [-1, self._llama.num_kv_heads, -1, self._llama.head_dim]
        info = VariableInfo()
        info.data_shape, info.data_type = ov.PartialShape(shape), ov.Type.f32
        info.variable_id = name
        variable = Variable(info)
        empty_shape = ops.concat(
            [self._batch, _ints([shape[1]]), _ints([0]), _ints([shape[3]])], axis=0
        )
        empty = ops.broadcast(_floats(0.0), empty_shape)
        past = ops.gather(ops.read_value(empty, variable), self.beam_idx, _ints(0))
        joined = ops.concat([past, new], axis=2)
        self.writes.append(ops.assign(joined, variable))
        return joined

    def _repeated(self, heads: Any) -> Any:
        """Keys or values once for each query head that shares them."""
        llama = self._llama
        shared = llama.num_heads // llama.num_kv_heads
        if shared == 1:
            return heads
        apart = ops.unsqueeze(heads, _ints(2))
        ones = _ints([1, 1, shared, 1, 1])
        repeated = ops.broadcast(apart, ones, broadcast_spec="BIDIRECTIONAL")
        shape = _ints([0, llama.num_heads, -1, llama.head_dim])
        return ops.reshape(repeated, shape, special_zero=True)

    def _causal_mask(self) -> Any:
        """[1, 1, rows, slots]: 0 where a row may look, else minus infinity."""
        num_slots = _dimension(self.attention_mask, 1)
        num_rows = _dimension(self.input_ids, 1)
        slots = _range(_ints([0]), num_slots)
        rows = _range(ops.subtract(num_slots, num_rows), num_slots)
        may_look = ops.less_equal(
            ops.unsqueeze(slots, _ints([0, 1, 2])), ops.unsqueeze(rows, _ints([0, 1, 3]))
        )
        return ops.select(may_look, _floats(0.0), _floats(-np.inf))


def _parameter(name: str, dtype: Any, shape: list[int]) -> Any:
    parameter = ops.parameter(shape, dtype, name=name)
    parameter.output(0).set_names({name})
    return parameter


def _dimension(node: Any, axis: int) -> Any:
    return ops.gather(ops.shape_of(node), _ints([axis]), _ints(0))


def _range(start: Any, stop: Any) -> Any:
    scalar = _ints(0)
    return ops.range(ops.squeeze(start, scalar), ops.squeeze(stop, scalar), _ints(1), "i64")


def _ints(values: Any) -> Any:
    return ops.constant(np.asarray(values, dtype=np.int64))


def _floats(value: float) -> Any:
    return ops.constant(np.asarray(value, dtype=np.float32))
