"""A model's configuration, by one set of names for what families name differently."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ssd.core.errors import ConfigError

# Families name the same size differently; the first name that a configuration has is taken.
NAMES: Mapping[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads", "attention_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads"),
    "inner": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "context": ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"),
    "num_experts": ("num_local_experts", "num_experts", "n_routed_experts"),
}


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A configuration by the names above, or by its own."""

    name: str
    values: Mapping[str, Any]

    def size(self, key: str, default: int | None = None) -> int:
        """Raises ConfigError when the configuration does not say."""
        for name in NAMES.get(key, (key,)):
            value = self.values.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                return value
        if default is None:
            names = " or ".join(NAMES.get(key, (key,)))
            raise ConfigError(f"the configuration of {self.name} does not give {names}")
        return default

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.values.get(key)
        return default if value is None else bool(value)

    @property
    def head_dim(self) -> int:
        return self.size("head_dim", self.size("hidden") // self.size("heads"))

    @property
    def kv_heads(self) -> int:
        return self.size("kv_heads", self.size("heads"))


def with_layers(values: Mapping[str, Any], num_layers: int) -> dict[str, Any]:
    """The configuration of a model that ends after so many of its layers."""
    names = [name for name in NAMES["layers"] if name in values]
    return {**values, **dict.fromkeys(names, num_layers)}
