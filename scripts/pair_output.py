"""Writing a pair: two Hugging Face folders and the manifest that vouches for them."""

import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

import tokenizers
import torch
import transformers
from tokenizers import Tokenizer
from transformers import GenerationConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from scripts.file_digests import MANIFEST_NAME, file_digests
from scripts.pair_evaluation import Figures
from scripts.pair_models import PairSpec

ROLES = ("target", "draft")


def token_ids(tokenizer: Tokenizer, tokens: Iterable[str]) -> list[int]:
    """The ids of tokens that must be in the vocabulary."""
    vocabulary = tokenizer.get_vocab()
    return [vocabulary[token] for token in tokens]


def save_model(model: LlamaForCausalLM, tokenizer: Tokenizer, spec: PairSpec, folder: Path) -> None:
    """One folder that both transformers and tokenizers load without a network."""
    stop_ids = token_ids(tokenizer, spec.stop_tokens)
    eos_token_id = stop_ids if len(stop_ids) > 1 else stop_ids[0]
    model.generation_config = GenerationConfig(eos_token_id=eos_token_id, do_sample=False)
    model.bfloat16().save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # safetensors writes for the owner alone
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=spec.stop_tokens[0],
        pad_token=spec.stop_tokens[0],
        additional_special_tokens=list(spec.special_tokens[1:]),
        model_max_length=model.config.max_position_embeddings,
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = spec.chat_template
    wrapped.save_pretrained(folder, save_jinja_files=False)


def on_device(model: LlamaForCausalLM, device: str) -> LlamaForCausalLM:
    """`model.to(device)`, whose wrapper in transformers has lost its types."""
    torch.nn.Module.to(model, device)
    return model


def load_saved(folder: Path, device: str) -> LlamaForCausalLM:
    """The saved weights in full precision, so that figures show what rounding cost."""
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    return on_device(model, device).eval()


def write_manifest(
    folder: Path,
    *,
    command: str,
    seed: int,
    minutes: Mapping[str, float],
    figures: Figures,
    held_out_names: tuple[str, ...],
) -> None:
    """Say how the pair was made, what it scores, and what exactly the files are."""
    manifest = {
        "command": command,
        "seed": seed,
        "training_minutes": {stage: round(spent, 2) for stage, spent in minutes.items()},
        "versions": _versions(),
        "parameters": {role: _num_parameters(folder / role) for role in ROLES},
        "figures": {name: round(value, 4) for name, value in asdict(figures).items()},
        "held_out_files": list(held_out_names),
        "sha256": file_digests(folder),
    }
    text = json.dumps(manifest, indent=2) + "\n"
    (folder / MANIFEST_NAME).write_text(text, encoding="utf-8")


def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "tokenizers": tokenizers.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def _num_parameters(folder: Path) -> int:
    return load_saved(folder, "cpu").num_parameters()
