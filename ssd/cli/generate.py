"""`ssd generate`: one prompt, streamed."""

import json
import sys
from typing import Annotated

import typer
from google.protobuf.json_format import MessageToDict

from ssd.cli.options import Address, coordinator_address, one_sentence_errors
from ssd.client import Client, Completion, Options
from ssd.core.mode import Mode
from ssd.core.rule import Rule


def generate(
    prompt: Annotated[str, typer.Argument(help="Text to go on from; - reads standard input.")],
    address: Address = None,
    max_tokens: Annotated[int | None, typer.Option(help="Tokens at most.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 is greedy, at most 2.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Nucleus, above 0 to 1.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Likeliest tokens to draw from.")] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Cut below this share of the likeliest.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same text.")] = None,
    mode: Annotated[
        Mode | None, typer.Option(help="ssd drafts ahead, sd drafts in turn, ar does not.")
    ] = None,
    rule: Annotated[
        Rule | None, typer.Option(help="coupled: the seed fixes the text; ratio: min(1, p/q).")
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Generate from PROMPT and stream the text; figures go to standard error.

    Example: ssd generate "Once upon a time" --max-tokens 64 --temperature 0
    """
    text = sys.stdin.read() if prompt == "-" else prompt
    options = Options(
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        seed=seed,
        mode=mode,
        rule=rule,
    )
    with one_sentence_errors(), Client(coordinator_address(address)) as client:
        generation = client.generate(text, options)
        pieces = []
        for piece in generation:
            pieces.append(piece)
            if not as_json:
                print(piece.text, end="", flush=True)
        completion = generation.completion
        if as_json:
            token_ids = [token_id for piece in pieces for token_id in piece.token_ids]
            print(json.dumps(_record("".join(each.text for each in pieces), token_ids, completion)))
        else:
            print()
            print(_summary(completion), file=sys.stderr)


def _record(text: str, token_ids: list[int], completion: Completion) -> dict[str, object]:
    return {
        "request_id": completion.request_id,
        "text": text,
        "token_ids": token_ids,
        "finish_reason": completion.finish_reason.value,
        "seed": completion.seed,
        "mode": completion.mode.value,
        "rule": completion.rule.value,
        "prompt_tokens": completion.num_prompt_tokens,
        "completion_tokens": completion.num_completion_tokens,
        "exactness": completion.exactness,
        "figures": MessageToDict(completion.figures, preserving_proto_field_name=True),
    }


def _summary(completion: Completion) -> str:
    figures = completion.figures
    return (
        f"{completion.num_completion_tokens} tokens, {completion.finish_reason}, "
        f"seed {completion.seed}, mode {completion.mode}: "
        f"{figures.tokens_per_round:.2f} tokens per round, "
        f"acceptance {figures.acceptance:.2f}, hit rate {figures.hit_rate:.2f}"
    )
