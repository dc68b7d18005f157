"""Whether to speculate with a pair of models, before either is loaded, and why.

Everything follows from the two configurations, a data sheet, and one assumption, how often the
draft guesses right; the times of forwards go through the simulator, which runs the service's own
core. The reasons are rules of thumb that say where the figures come from; where the two disagree
the figures decide.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ssd.advise.devices import Device
from ssd.advise.expectation import Workload, expected_acceptance, expected_tokens
from ssd.advise.placement import PlacedModel
from ssd.advise.source import Described, check_pair
from ssd.advise.speed import Speed, drafted_speeds, plain_speed
from ssd.core.errors import ConfigError
from ssd.core.growth import GrowthLimits

_SMALL, _LARGE = 3e9, 7e9
_WARM, _COOL = 0.7, 0.3
_CROWDED, _INTERACTIVE = 32, 8
_RARELY = 0.5
_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}
_SAME_PRICE = 1.05
_WORTHWHILE = 1.05  # below this a second device and its upkeep buy nothing that can be felt


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be served. `acceptance` None leaves it to what such texts usually show."""

    device: Device
    batch: int = 1
    temperature: float = 0.0
    workload: Workload = Workload.CHAT
    context: int = 2048
    dtype: str | None = None
    acceptance: float | None = None
    gpu_hour_price: float | None = None
    max_nodes: int = 12


@dataclass(frozen=True, slots=True)
class Reason:
    """One fact that speaks for speculation or against it."""

    is_for: bool
    words: str


@dataclass(frozen=True, slots=True)
class Drafted:
    """What a pair is expected to do. `depth` is the best length of a chain in mode `sd`."""

    draft: PlacedModel
    acceptance: float
    is_assumed: bool
    depth: int
    sd: Speed
    ssd: Speed
    is_of_target: bool = False
    """Whether the draft is made of the target's own layers."""

    @property
    def tokens_per_round(self) -> float:
        """Of a chain: (1 - a^(K+1)) / (1 - a)."""
        return expected_tokens(self.acceptance, self.depth)


@dataclass(frozen=True, slots=True)
class Advice:
    """The answer; `drafted` is None where no draft was named."""

    question: Question
    target: PlacedModel
    plain: Speed
    drafted: Drafted | None
    reasons: tuple[Reason, ...]
    notes: tuple[str, ...]

    @property
    def speeds(self) -> tuple[Speed, ...]:
        drafted = () if self.drafted is None else (self.drafted.sd, self.drafted.ssd)
        return (self.plain, *drafted)

    def speed_up(self, speed: Speed) -> float:
        return speed.tokens_per_s / self.plain.tokens_per_s

    @property
    def best(self) -> Speed:
        """The fastest mode; plain decoding unless another is faster by more than can be felt."""
        fastest = max(self.speeds, key=lambda each: each.tokens_per_s)
        return fastest if self.speed_up(fastest) >= _WORTHWHILE else self.plain

    @property
    def verdict(self) -> str:
        """One sentence to act on."""
        best = self.best
        if self.drafted is None:
            return (
                "No draft was named. Without a model that shares the tokenizer, n-gram drafts need"
                " no device: they pay where the output repeats the prompt."
            )
        if best is self.plain:
            against = [reason.words for reason in self.reasons if not reason.is_for]
            because = "; ".join(against[:3]) or "drafting costs what it saves"
            return f"Do not speculate here, because {because}."
        faster = f"{self.speed_up(best):.1f} times as fast as plain decoding"
        ratio = self.plain.per_device / best.per_device
        if ratio < _SAME_PRICE:
            return f"Speculate with mode {best.mode}: {faster}, and no token costs more."
        return (
            f"Speculate with mode {best.mode} where latency counts: {faster}, for {ratio:.1f} times"
            " the price of a token."
        )


def advise(question: Question, target: Described, draft: Described | None) -> Advice:
    """Answer for a pair, or for a target alone.

    Raises:
        ConfigError: the tokenizers differ, or the target cannot take a text of that length.
    """
    _check_context(question, target)
    placed = _place(question, target, tree_slots=question.max_nodes + 1)
    plain = plain_speed(placed)
    if draft is None:
        reasons = tuple(_reasons(question, placed, None, is_same_family=True))
        return Advice(question, placed, plain, None, reasons, tuple(_notes(question, placed)))
    uncompared = check_pair(target, draft)
    small = _place(question, draft, tree_slots=GrowthLimits().max_nodes)
    is_same_family = draft.shape.family == target.shape.family
    assumed = expected_acceptance(
        question.workload, temperature=question.temperature, is_same_family=is_same_family
    )
    acceptance = assumed if question.acceptance is None else question.acceptance
    sd, ssd, depth = drafted_speeds(
        placed, small, acceptance=acceptance, max_nodes=question.max_nodes
    )
    is_of_target = draft.folder == target.folder
    is_assumed = question.acceptance is None
    drafted = Drafted(small, acceptance, is_assumed, depth, sd, ssd, is_of_target)
    reasons = tuple(_reasons(question, placed, drafted, is_same_family=is_same_family))
    notes = [*_notes(question, placed), *_notes_of_pair(question, drafted)]
    notes += [] if uncompared is None else [uncompared]
    return Advice(question, placed, plain, drafted, reasons, tuple(notes))


def _check_context(question: Question, target: Described) -> None:
    longest = target.shape.context_len
    if longest is not None and question.context > longest:
        raise ConfigError(f"{target.name} takes {longest} tokens, not {question.context}")


def _place(question: Question, model: Described, *, tree_slots: int) -> PlacedModel:
    longest = model.shape.context_len
    context = question.context if longest is None else min(question.context, longest)
    return PlacedModel(
        model.shape,
        question.device,
        dtype=question.dtype or _DTYPES.get(model.shape.dtype or "", "bf16"),
        batch=question.batch,
        context=context,
        tree_slots=tree_slots,
    )


def _reasons(
    question: Question, target: PlacedModel, drafted: Drafted | None, *, is_same_family: bool
) -> Iterator[Reason]:
    """Those against first: who reads only one line should read a warning."""
    yield from _against(question, target, drafted, is_same_family=is_same_family)
    size = target.shape.num_parameters
    if size >= _LARGE:
        yield Reason(True, f"the target is large ({size / 1e9:.1f}B; from 7B on a round is long)")
    if question.batch <= _INTERACTIVE and question.workload is not Workload.BULK:
        yield Reason(True, f"few texts at once ({question.batch}) leave arithmetic idle")
    if question.workload in (Workload.CODE, Workload.EDIT):
        yield Reason(True, f"{question.workload} is text that a draft guesses well")
    if question.temperature <= _COOL:
        yield Reason(True, f"the temperature is low ({question.temperature:g})")


def _against(
    question: Question, target: PlacedModel, drafted: Drafted | None, *, is_same_family: bool
) -> Iterator[Reason]:
    size = target.shape.num_parameters
    if size < _SMALL:
        yield Reason(False, f"the target is small ({size / 1e9:.2g}B, under 3B): a round is short")
    if question.temperature > _WARM:
        yield Reason(False, f"the temperature is {question.temperature:g}, above 0.7")
    if question.batch > _CROWDED:
        words = f"{question.batch} texts at once, above 32, leave no arithmetic idle"
        yield Reason(False, words)
    if question.workload is Workload.CREATIVE:
        yield Reason(False, "creative text is hard to guess")
    if not is_same_family:
        yield Reason(False, "the draft is of another model family")
    if drafted is None:
        return
    if drafted.acceptance < _RARELY:
        yield Reason(False, f"the acceptance is {drafted.acceptance:.2f}, under 0.5")
    if drafted.acceptance * drafted.depth < 1.0:
        product = drafted.acceptance * drafted.depth
        words = f"acceptance times depth is {product:.2f}, under 1: less than a token a round more"
        yield Reason(False, words)
    step = drafted.draft.forward_s(num_rows=1, num_texts=1)
    verification = target.forward_s(num_rows=1, num_texts=1)
    if step > 0.3 * verification:
        share = step / verification
        yield Reason(False, f"a draft step takes {share:.2f} of a verification: the draft is large")


def _notes(question: Question, target: PlacedModel) -> Iterator[str]:
    """What the figures take for granted."""
    yield (
        f"forwards from the data sheet of {question.device.name}, read at"
        f" {question.device.read_share:.0%}, {question.device.layer_s * 1e6:.0f} us a layer"
    )
    if target.num_devices > 1:
        yield (
            f"the target needs {target.num_devices} devices of {question.device.name}; ssd serve"
            " runs a model on one, so these are the figures of a runner that spreads it"
        )


def _notes_of_pair(question: Question, drafted: Drafted) -> Iterator[str]:
    if drafted.is_assumed:
        yield (
            f"the acceptance of {drafted.acceptance:.2f} is assumed from the workload, temperature"
            " and family; ssd measure finds yours"
        )
    if drafted.is_of_target and drafted.is_assumed:
        yield "first layers guess well only in a model that was trained for it (arXiv 2404.16710)"
    longest = drafted.draft.shape.context_len
    if longest is not None and longest < question.context:
        yield f"texts beyond {longest} tokens, the draft's context, are not drafted for"
    yield "the drafter has a device of its own, in mode sd as well"
    if question.device.is_shared:
        yield "messages take time of the same cores, which is left out: expect less"
