"""`ssd generate`: one prompt, streamed."""

import json
import sys
from typing import Annotated

import typer
from google.protobuf.json_format import MessageToDict

from ssd.cli import sampling_options as options
from ssd.cli.connection import connect
from ssd.cli.options import Address, one_sentence_errors
from ssd.cli.sampling_options import options_of
from ssd.client import Completion, Generation, Piece
from ssd.core.rule import Rule


def generate(
    prompt: Annotated[str, typer.Argument(help="Text to go on from; - reads standard input.")],
    address: Address = None,
    max_tokens: options.MaxTokens = None,
    min_tokens: options.MinTokens = None,
    temperature: options.Temperature = None,
    top_p: options.TopP = None,
    top_k: options.TopK = None,
    min_p: options.MinP = None,
    repetition_penalty: options.RepetitionPenalty = None,
    presence_penalty: options.PresencePenalty = None,
    frequency_penalty: options.FrequencyPenalty = None,
    logit_bias: options.LogitBias = None,
    bad_words: options.BadWords = None,
    stop: options.Stop = None,
    stop_token_ids: options.StopTokenIds = None,
    seed: options.Seed = None,
    n: Annotated[int | None, typer.Option("-n", help="Answers to the same prompt.")] = None,
    top_logprobs: Annotated[
        int | None, typer.Option(help="Log-probabilities, with so many alternatives; as JSON.")
    ] = None,
    prompt_logprobs: Annotated[int | None, typer.Option(help="Those of the prompt too.")] = None,
    mode: options.ModeOption = None,
    rule: Annotated[
        Rule | None, typer.Option(help="coupled: the seed fixes the text; ratio: min(1, p/q).")
    ] = None,
    max_nodes: options.MaxNodes = None,
    max_depth: options.MaxDepth = None,
    drafters: options.Drafters = None,
    priority: Annotated[int | None, typer.Option(help="The lowest waits least.")] = None,
    request_id: Annotated[str | None, typer.Option(help="A name to cancel it by.")] = None,
    timeout_s: Annotated[float | None, typer.Option("--timeout", help="Seconds.")] = None,
    api_key_file: options.KeyFile = None,
    *,
    include_stop: Annotated[bool, typer.Option(help="Keep the stop string.")] = False,
    ignore_eos: Annotated[bool, typer.Option(help="Go on after the end token.")] = False,
    echo: Annotated[bool, typer.Option(help="Print the prompt first.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Generate from PROMPT and stream the text; figures go to standard error.

    Example: ssd generate "Once upon a time" --max-tokens 64 --temperature 0
    """
    text = sys.stdin.read() if prompt == "-" else prompt
    with one_sentence_errors(), connect(address, api_key_file) as client:
        chosen = options_of(
            max_tokens=max_tokens,
            min_tokens=min_tokens,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
            presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty,
            logit_bias=logit_bias,
            bad_words=bad_words,
            stop=stop,
            stop_token_ids=stop_token_ids,
            seed=seed,
            n=n,
            logprobs=top_logprobs is not None,
            top_logprobs=top_logprobs,
            prompt_logprobs=prompt_logprobs,
            mode=mode,
            rule=rule,
            max_nodes=max_nodes,
            max_depth=max_depth,
            drafters=drafters,
            priority=priority,
            request_id=request_id,
            timeout_s=timeout_s,
            include_stop=include_stop,
            ignore_eos=ignore_eos,
            echo=echo,
        )
        generation = client.generate(text, chosen)
        if as_json:
            print(json.dumps(_record(generation)))
        else:
            _print(generation)


def _print(generation: Generation) -> None:
    """The first answer as it comes, the others after it."""
    others: dict[int, str] = {}
    is_first = True
    for piece in generation:
        if is_first and generation.prompt is not None:
            print(generation.prompt.text, end="")
        is_first = False
        if piece.index:
            others[piece.index] = others.get(piece.index, "") + piece.text
        else:
            print(piece.text, end="", flush=True)
    print()
    for index in sorted(others):
        print(f"\n[{index + 1}] {others[index]}")
    print(_summary(generation.completion), file=sys.stderr)


def _record(generation: Generation) -> dict[str, object]:
    pieces = list(generation)
    completion = generation.completion
    first = [piece for piece in pieces if piece.index == 0]
    record: dict[str, object] = {
        "request_id": completion.request_id,
        "text": "".join(piece.text for piece in first),
        "token_ids": [token_id for piece in first for token_id in piece.token_ids],
        "finish_reason": completion.finish_reason.value,
        "matched_stop": completion.matched_stop,
        "seed": completion.seed,
        "mode": completion.mode.value,
        "rule": completion.rule.value,
        "prompt_tokens": completion.num_prompt_tokens,
        "cached_prompt_tokens": completion.num_cached_prompt_tokens,
        "completion_tokens": completion.num_completion_tokens,
        "exactness": completion.exactness,
        "timing": MessageToDict(completion.timing, preserving_proto_field_name=True),
        "figures": MessageToDict(completion.figures, preserving_proto_field_name=True),
    }
    if completion.shadow is not None:
        record["shadow"] = MessageToDict(completion.shadow, preserving_proto_field_name=True)
    if any(piece.logprobs for piece in first):
        record["logprobs"] = _logprobs(first)
    if generation.prompt is not None:
        record["prompt"] = {
            "text": generation.prompt.text,
            "token_ids": list(generation.prompt.token_ids),
            "logprobs": [_entry(each.logprob, each.top) for each in generation.prompt.logprobs],
        }
    if len(completion.choices) > 1:
        record["texts"] = [
            "".join(piece.text for piece in pieces if piece.index == index)
            for index in range(len(completion.choices))
        ]
    return record


def _logprobs(pieces: list[Piece]) -> list[dict[str, object]]:
    return [_entry(each.logprob, each.top) for piece in pieces for each in piece.logprobs]


def _entry(logprob: float, top: tuple[tuple[int, float], ...]) -> dict[str, object]:
    return {"logprob": logprob, "top": [list(each) for each in top]}


def _summary(completion: Completion) -> str:
    shadow = completion.shadow
    figures, would_be = (completion.figures, "") if shadow is None else (shadow, "would have been ")
    return (
        f"{completion.num_completion_tokens} tokens, {completion.finish_reason}, "
        f"seed {completion.seed}, mode {completion.mode}: "
        f"{would_be}{figures.tokens_per_round:.2f} tokens per round, "
        f"acceptance {figures.acceptance:.2f}, hit rate {figures.hit_rate:.2f}"
    )
