"""Command line options that say how to generate, shared by `ssd generate` and `ssd chat`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ssd.client import Options
from ssd.core.drafter_kind import kinds_of
from ssd.core.errors import InvalidRequest
from ssd.core.mode import Mode
from ssd.core.speculation_limits import SpeculationLimits

Temperature = Annotated[float | None, typer.Option(help="0 is greedy, at most 2.")]
TopP = Annotated[float | None, typer.Option(help="Nucleus, above 0 to 1.")]
TopK = Annotated[int | None, typer.Option(help="Likeliest tokens to draw from.")]
MinP = Annotated[float | None, typer.Option(help="Cut below this share of the likeliest.")]
MaxTokens = Annotated[int | None, typer.Option(help="Tokens at most.")]
MinTokens = Annotated[int | None, typer.Option(help="No end before this many tokens.")]
RepetitionPenalty = Annotated[float | None, typer.Option(help="Above 1 disfavours all said.")]
PresencePenalty = Annotated[float | None, typer.Option(help="Off what the output holds.")]
FrequencyPenalty = Annotated[float | None, typer.Option(help="Off per time it holds it.")]
LogitBias = Annotated[
    list[str] | None, typer.Option(metavar="ID=BIAS", help="Added to a token's logit.")
]
BadWords = Annotated[list[str] | None, typer.Option("--bad-word", help="Never to be said.")]
Stop = Annotated[list[str] | None, typer.Option(help="A text that ends the output.")]
StopTokenIds = Annotated[list[int] | None, typer.Option("--stop-token-id", help="Ends it too.")]
Seed = Annotated[int | None, typer.Option(help="Same seed, same text.")]
ModeOption = Annotated[
    Mode | None,
    typer.Option(help="ssd drafts ahead, sd in turn, ar not at all, shadow for the counters."),
]
MaxNodes = Annotated[int | None, typer.Option(help="Drafted tokens per round, at most.")]
MaxDepth = Annotated[int | None, typer.Option(help="Tokens accepted per round, at most.")]
Drafters = Annotated[
    str | None,
    typer.Option("--drafter", metavar="NAME[,NAME]", help="Who may draft: model, ngram, self."),
]
KeyFile = Annotated[
    Path | None, typer.Option("--api-key-file", help="File that holds the API key.")
]


def options_of(**fields: Any) -> Options:
    """What the options of a command say; those not given are left to the server.

    Raises:
        InvalidRequest: a bias is no ID=BIAS, or there is no such drafter.
    """
    names = [each.strip() for each in (fields.pop("drafters") or "").split(",") if each.strip()]
    limits = SpeculationLimits(
        fields.pop("max_nodes"),
        fields.pop("max_depth"),
        kinds_of(names, field="--drafter") or None,
    )
    biases = dict(_bias(each) for each in fields.pop("logit_bias") or ())
    lists = ("bad_words", "stop", "stop_token_ids")
    given: dict[str, Any] = {name: tuple(fields.pop(name) or ()) for name in lists}
    return Options(**fields, **given, logit_bias=biases, speculation=limits)


def _bias(assignment: str) -> tuple[int, float]:
    token_id, _, bias = assignment.partition("=")
    try:
        return int(token_id), float(json.loads(bias))
    except ValueError as error:
        raise InvalidRequest(f"--logit-bias takes ID=BIAS, not {assignment}") from error
