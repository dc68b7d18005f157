"""Build one of the repository's model pairs, from reading texts to writing the manifest.

The time is kept whatever the machine: a slower one gives a weaker pair, not a later one. Without
a scratch folder nothing is kept but the result; with one, a stopped run resumes where it last
saved, and a finished one given more minutes goes on from there.
"""

import argparse
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from scripts import (
    pair_corpus,
    pair_distillation,
    pair_evaluation,
    pair_models,
    pair_output,
    pair_training,
)

TARGET_SHARE = 0.7
OWN_TEXT_SHARE = 0.15  # of the draft's time


@dataclass(frozen=True, slots=True)
class Options:
    """One run, as asked for on the command line."""

    pair: str
    out: Path
    seed: int
    minutes: float
    target_share: float
    device: str
    threads: int
    scratch: Path | None

    @property
    def command(self) -> str:
        """The line that would ask for the same run on another machine."""
        return (
            f"python scripts/train_pair.py {self.pair} --out models --seed {self.seed}"
            f" --minutes {self.minutes:g} --target-share {self.target_share:g}"
            f" --device {self.device} --threads {self.threads}"
        )

    @property
    def target_s(self) -> float:
        return 60 * self.minutes * self.target_share

    @property
    def draft_s(self) -> float:
        return 60 * self.minutes - self.target_s


@dataclass(frozen=True, slots=True)
class Material:
    """What a pair is trained on, ready to be cut into rows."""

    tokenizer: Tokenizer
    train: pair_corpus.TokenStream
    held_out: pair_corpus.TokenStream
    held_out_names: tuple[str, ...]


def parse_options() -> Options:
    parser = argparse.ArgumentParser(description="Build a model pair from a seed.")
    parser.add_argument("pair", choices=sorted(pair_models.PAIRS))
    parser.add_argument("--out", type=Path, default=Path("models"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--target-share", type=float, default=TARGET_SHARE)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--scratch", type=Path, default=None, help="where to keep checkpoints")
    return Options(**vars(parser.parse_args()))


def prepare(spec: pair_models.PairSpec, seed: int) -> Material:
    """Read the texts, train the tokenizer on the training side, and encode both sides."""
    texts = spec.read_texts(seed)
    tokenizer = pair_corpus.train_tokenizer(
        texts.train, vocab_size=spec.vocab_size, special_tokens=spec.special_tokens
    )
    train, held_out = (
        pair_corpus.encode(tokenizer, side, starts_at_documents=spec.starts_at_documents)
        for side in (texts.train, texts.held_out)
    )
    return Material(tokenizer, train, held_out, texts.held_out_names)


def train_target(
    spec: pair_models.PairSpec, material: Material, options: Options, scratch: Path
) -> LlamaForCausalLM:
    """The target, trained on the corpus."""
    target = pair_models.build_model(
        spec.target,
        vocab_size=spec.vocab_size,
        seed=options.seed,
        starts_copying=spec.starts_copying,
    )
    pair_output.on_device(target, options.device)
    limit = spec.target.num_positions
    pair_training.train(
        target,
        pair_training.batches(material.train, spec.row_lens, limit=limit, seed=options.seed),
        pair_training.next_token_loss,
        limit_s=options.target_s,
        checkpoint=pair_training.Checkpoint(scratch / f"{spec.name}-target.pt"),
        label=f"{spec.name} target",
    )
    return target


def train_draft(
    spec: pair_models.PairSpec,
    material: Material,
    options: Options,
    scratch: Path,
    *,
    target: LlamaForCausalLM,
) -> LlamaForCausalLM:
    """The draft, trained on the target's distribution."""
    draft = pair_models.build_model(
        spec.draft,
        vocab_size=spec.vocab_size,
        seed=options.seed + 1,
        starts_copying=spec.starts_copying,
    )
    pair_output.on_device(draft, options.device)
    own_text_s = OWN_TEXT_SHARE * options.draft_s
    groups = pair_distillation.target_rows(
        target, material.train, limit_s=own_text_s, seed=options.seed
    )
    limit = spec.draft.num_positions
    corpus = pair_training.batches(
        material.train, spec.row_lens, limit=limit, seed=options.seed + 1
    )
    pair_training.train(
        draft,
        pair_distillation.with_target_rows(corpus, groups, limit=limit, seed=options.seed),
        pair_distillation.distillation_loss(target),
        limit_s=options.draft_s - own_text_s,
        checkpoint=pair_training.Checkpoint(scratch / f"{spec.name}-draft.pt"),
        label=f"{spec.name} draft",
    )
    return draft


def measure_saved(
    spec: pair_models.PairSpec, material: Material, options: Options
) -> pair_evaluation.Figures:
    """The figures of the pair as it lies on disk."""
    target, draft = (
        pair_output.load_saved(options.out / spec.name / role, options.device)
        for role in pair_output.ROLES
    )
    stop_ids = frozenset(pair_output.token_ids(material.tokenizer, spec.stop_tokens))
    return pair_evaluation.measure(
        target, draft, train=material.train, held_out=material.held_out, stop_ids=stop_ids
    )


def build_pair(options: Options, scratch: Path) -> pair_evaluation.Figures:
    """Train, save and measure one pair, and leave its manifest beside it."""
    spec = pair_models.PAIRS[options.pair]
    folder = options.out / spec.name
    material = prepare(spec, options.seed)
    target = train_target(spec, material, options, scratch)
    draft = train_draft(spec, material, options, scratch, target=target)
    for role, model in zip(pair_output.ROLES, (target, draft), strict=True):
        pair_output.save_model(model, material.tokenizer, spec, folder / role)
    figures = measure_saved(spec, material, options)
    pair_output.write_manifest(
        folder,
        command=options.command,
        seed=options.seed,
        minutes={"target": options.target_s / 60, "draft": options.draft_s / 60},
        figures=figures,
        held_out_names=material.held_out_names,
    )
    return figures


def main() -> None:
    options = parse_options()
    torch.set_num_threads(options.threads)
    with ExitStack() as stack:
        scratch = options.scratch or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        scratch.mkdir(parents=True, exist_ok=True)
        print(build_pair(options, scratch))
