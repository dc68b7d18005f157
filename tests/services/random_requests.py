"""Random requests, valid and not, and what plain decoding answers to the valid ones."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ssd.core.choice_seed import choice_seed
from ssd.core.sampling_params import SamplingParams
from ssd.sampling import divide_by_temperature, gumbel_rows, process_logits
from tests.models.scripted_model import ScriptedModel
from tests.models.table_runner import CONTEXT_LEN, VOCAB_SIZE, agreeing
from tests.models.tiny_pair import byte_tokenizer
from tests.sampling.test_text_edits import slow_edit

EOS = 11


@dataclass(frozen=True, slots=True)
class RandomRequest:
    """Fields of a request; `bad_field` is what its refusal must name."""

    prompt: list[int]
    fields: dict[str, Any] = field(default_factory=dict)
    bad_field: str | None = None
    is_left: bool = False  # the client leaves after the first message


def random_request(rng: random.Random) -> RandomRequest:
    prompt = [rng.randrange(VOCAB_SIZE) for _ in range(rng.randint(1, 30))]
    fields = _valid_fields(rng)
    if rng.random() < 0.35:
        bad_field, spoil = rng.choice(_SPOILERS)
        spoil(fields, rng)
        return RandomRequest(prompt, fields, bad_field)
    return RandomRequest(prompt, fields, is_left=rng.random() < 0.1)


def _valid_fields(rng: random.Random) -> dict[str, Any]:
    """Every field is there now and then."""
    max_tokens = rng.choice((1, 2, 5, 12, 24))
    choices: dict[str, Callable[[], Any]] = {
        "temperature": lambda: rng.choice((0.0, 1e-5, 0.3, 1.0, 2.0)),
        "top_p": lambda: rng.choice((1e-6, 0.4, 0.9, 1.0)),
        "top_k": lambda: rng.choice((0, 1, 3, VOCAB_SIZE, 2**32 - 1)),
        "min_p": lambda: rng.choice((0.0, 0.05, 0.9)),
        "repetition_penalty": lambda: rng.choice((0.01, 0.8, 1.0, 1.3, 100.0)),
        "presence_penalty": lambda: rng.choice((-2.0, 0.0, 1.5)),
        "frequency_penalty": lambda: rng.choice((-0.5, 0.0, 2.0)),
        "logit_bias": lambda: {rng.randrange(VOCAB_SIZE): rng.uniform(-100, 100)},
        "bad_token_ids": lambda: [{"token_ids": [rng.randrange(9)]}, {"token_ids": [1, 2]}],
        "min_tokens": lambda: rng.randint(0, max_tokens),
        "stop_token_ids": lambda: rng.sample(range(9), 2),
        "stop": lambda: [_text([rng.randrange(9)]), _text([1, 2, 3])],
        "include_stop": lambda: rng.random() < 0.5,
        "ignore_eos": lambda: rng.random() < 0.5,
        "logprobs": lambda: True,
        "mode": lambda: rng.choice(("ssd", "sd", "ar")),
        "speculation": lambda: {"max_nodes": rng.randint(1, 9)},
        "priority": lambda: rng.randint(-5, 5),
        "n": lambda: rng.choice((1, 1, 2)),
        "echo": lambda: True,
        "prompt_logprobs": lambda: 1,
        "include_rounds": lambda: True,
    }
    chosen = {name: make() for name, make in choices.items() if rng.random() < 0.2}
    return chosen | {"max_tokens": max_tokens, "seed": rng.getrandbits(64)}


Spoil = Callable[[dict[str, Any], random.Random], None]


def _set(name: str, *values: Any) -> tuple[str, Spoil]:
    def spoil(fields: dict[str, Any], rng: random.Random) -> None:
        fields[name] = rng.choice(values)

    return name, spoil


_SPOILERS: list[tuple[str, Spoil]] = [
    _set("temperature", -1.0, 2.01, math.nan, math.inf),
    _set("top_p", 0.0, -0.5, 1.01, math.nan),
    _set("min_p", 1.0, -0.1, math.nan),
    _set("repetition_penalty", 0.0, 1e-9, math.inf, math.nan),
    _set("presence_penalty", 2.01, math.nan),
    _set("frequency_penalty", -2.01, math.inf),
    _set("logit_bias", {VOCAB_SIZE: 1.0}, {0: 101.0}, {1: math.nan}),
    _set("bad_token_ids", [{"token_ids": []}], [{"token_ids": [99]}]),
    _set("bad_words", [""], ["   "], ["long words have letters"]),
    _set("stop", [""], ["x" * 300], ["x"] * 20),
    _set("stop_token_ids", [VOCAB_SIZE], [2**32 - 1]),
    _set("max_tokens", 0, CONTEXT_LEN, 2**32 - 1),
    _set("min_tokens", 25, 2**32 - 1),
    _set("n", 0, 129, 2**32 - 1),
    _set("top_logprobs", 21, 2**32 - 1),
    _set("prompt_logprobs", 21, 99),
    _set("mode", 0, 77),
    _set("speculation", {"max_nodes": 0}, {"max_depth": 0}),
    _set("request_id", "", "x" * 200, "a\nb"),
]


@dataclass(frozen=True, slots=True)
class Expected:
    """An answer by plain decoding."""

    token_ids: tuple[int, ...]
    text: str
    is_stopped: bool


def expected_answers(script: ScriptedModel, request: RandomRequest) -> list[Expected]:
    """By the definitions, one token after the other."""
    num_choices = request.fields.get("n", 1)
    seeds = [choice_seed(request.fields["seed"], index) for index in range(num_choices)]
    return [_decode(script, request, seed) for seed in seeds]


def _decode(script: ScriptedModel, request: RandomRequest, seed: int) -> Expected:
    fields, output = request.fields, list[int]()
    params = _params(fields, seed)
    stops, first_counted = fields.get("stop", []), fields.get("min_tokens", 0)
    while len(output) < fields["max_tokens"]:
        output.append(_next_token(script, request.prompt, output, params))
        if len(output) > first_counted:
            text, head = _text(output), _text(output[:first_counted])
            ended = [stop for stop in stops if text[len(head) :].endswith(stop)]
            if ended:
                cut = 0 if fields.get("include_stop") else len(max(ended, key=len))
                return Expected(tuple(output), text[: len(text) - cut], is_stopped=True)
        if output[-1] in _stop_ids(fields):
            return Expected(tuple(output), _text(output), is_stopped=True)
    return Expected(tuple(output), _text(output), is_stopped=False)


def _params(fields: dict[str, Any], seed: int) -> SamplingParams:
    plain = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "min_tokens")
    more = ("presence_penalty", "frequency_penalty")
    return SamplingParams(
        **{name: fields[name] for name in (*plain, *more) if name in fields},
        seed=seed,
        logit_bias=tuple(fields.get("logit_bias", {}).items()),
        banned_sequences=tuple(
            tuple(each["token_ids"]) for each in fields.get("bad_token_ids", [])
        ),
        end_token_ids=tuple({*fields.get("stop_token_ids", []), EOS}),
    )


def _next_token(
    script: ScriptedModel, prompt: list[int], output: list[int], params: SamplingParams
) -> int:
    logits = slow_edit(agreeing(script)((*prompt, *output)), params, output, prompt)
    row = process_logits(torch.tensor([logits], dtype=torch.float64), [params])
    scores = divide_by_temperature(row, [params])
    if not params.is_greedy:
        position = len(prompt) + len(output)
        scores = scores + gumbel_rows(params.seed, [position], vocab_size=VOCAB_SIZE)
    return int(scores[0].argmax())


def _stop_ids(fields: dict[str, Any]) -> set[int]:
    own = set() if fields.get("ignore_eos") else {EOS}
    return {*fields.get("stop_token_ids", []), *own}


def _text(token_ids: list[int]) -> str:
    return str(byte_tokenizer_once().decode(token_ids))


_TOKENIZER: list[Any] = []


def byte_tokenizer_once() -> Any:
    """Making one takes longer than a request."""
    if not _TOKENIZER:
        _TOKENIZER.append(byte_tokenizer())
    return _TOKENIZER[0]
