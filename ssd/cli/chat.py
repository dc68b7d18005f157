"""`ssd chat`: a conversation in the terminal."""

import sys
from typing import Annotated

import typer

from ssd.cli import sampling_options as options
from ssd.cli.connection import connect
from ssd.cli.options import Address, one_sentence_errors
from ssd.cli.sampling_options import options_of
from ssd.client import Client, Completion, Message, Options

_LEAVING = frozenset({"/quit", "/exit"})
_RESET = "/new"


def chat(
    address: Address = None,
    system: Annotated[str | None, typer.Option(help="A first word to the model.")] = None,
    max_tokens: options.MaxTokens = None,
    temperature: options.Temperature = None,
    top_p: options.TopP = None,
    top_k: options.TopK = None,
    min_p: options.MinP = None,
    repetition_penalty: options.RepetitionPenalty = None,
    presence_penalty: options.PresencePenalty = None,
    frequency_penalty: options.FrequencyPenalty = None,
    stop: options.Stop = None,
    seed: options.Seed = None,
    mode: options.ModeOption = None,
    max_nodes: options.MaxNodes = None,
    max_depth: options.MaxDepth = None,
    drafters: options.Drafters = None,
    api_key_file: options.KeyFile = None,
) -> None:
    """Talk with the model; each answer is streamed, and its speed shown after it.

    Ctrl-C stops an answer, /new starts over, /quit or Ctrl-D leaves.
    """
    with one_sentence_errors(), connect(address, api_key_file) as client:
        chosen = options_of(
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
            presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty,
            logit_bias=None,
            bad_words=None,
            stop=stop,
            stop_token_ids=None,
            seed=seed,
            mode=mode,
            max_nodes=max_nodes,
            max_depth=max_depth,
            drafters=drafters,
        )
        start = [Message("system", system)] if system else []
        conversation = list(start)
        while (said := _read_line()) is not None:
            if said == _RESET:
                conversation = list(start)
            elif said:
                conversation.append(Message("user", said))
                conversation.append(Message("assistant", _answer(client, conversation, chosen)))


def _read_line() -> str | None:
    """What the user says; None to leave."""
    try:
        line = input("you> " if sys.stdin.isatty() else "").strip()
    except EOFError:
        return None
    return None if line in _LEAVING else line


def _answer(client: Client, conversation: list[Message], chosen: Options) -> str:
    """Stream one answer; what came of it before Ctrl-C stays in the conversation."""
    text = ""
    with client.generate(conversation, chosen) as generation:
        try:
            for piece in generation:
                text += piece.text
                print(piece.text, end="", flush=True)
        except KeyboardInterrupt:
            print("\n[stopped]", file=sys.stderr)
            return text
    print()
    print(f"[{_speed(generation.completion)}]", file=sys.stderr)
    return text


def _speed(completion: Completion) -> str:
    per_token_ms = completion.timing.time_per_output_token_ms
    speed = f"{1e3 / per_token_ms:.0f} tokens/s, " if per_token_ms else ""
    return (
        f"{completion.num_completion_tokens} tokens, {speed}"
        f"first after {completion.timing.time_to_first_token_ms:.0f} ms, "
        f"acceptance {completion.figures.acceptance:.2f}"
    )
