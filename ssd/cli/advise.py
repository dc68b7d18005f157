"""`ssd advise`: does speculation pay here, before anything is loaded?"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from ssd.advise import (
    BYTES,
    DEVICES,
    Advice,
    PlacedModel,
    Question,
    Speed,
    Workload,
    describe,
)
from ssd.advise import advise as advise_on
from ssd.cli.options import one_sentence_errors
from ssd.config import ModelsSection, resolve_draft, resolve_model
from ssd.core.errors import ConfigError
from ssd.core.mode import Mode

_GIB = 2**30
_Value = TypeVar("_Value")


def advise(
    target: Annotated[
        str, typer.Option(help="Target: embedded pair, folder with a config.json, or hub name.")
    ],
    draft: Annotated[
        str | None, typer.Option(help="Draft, named likewise; default: the embedded target's own.")
    ] = None,
    draft_layers: Annotated[
        int | None,
        typer.Option(
            "--self-layers",
            "--draft-layers",
            min=1,
            help="Draft with this many first layers of the target.",
        ),
    ] = None,
    temperature: Annotated[float, typer.Option(min=0.0, max=2.0, help="Of most requests.")] = 0.0,
    batch: Annotated[int, typer.Option(min=1, max=512, help="Texts at once.")] = 1,
    workload: Annotated[Workload, typer.Option(help="What most requests ask for.")] = Workload.CHAT,
    context: Annotated[int, typer.Option(min=1, help="Tokens of a text, all told.")] = 2048,
    device: Annotated[str, typer.Option(help=f"For each model: {', '.join(DEVICES)}.")] = "h100",
    dtype: Annotated[
        str | None, typer.Option(help=f"{', '.join(BYTES)}; default: as the weights are stored.")
    ] = None,
    acceptance: Annotated[
        float | None,
        typer.Option(min=0.01, max=0.99, help="Rate of the draft's first candidate, if known."),
    ] = None,
    gpu_hour_price: Annotated[
        float | None, typer.Option(min=0.0, help="Of one device, in any currency.")
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what a pair of models would need and do, and whether speculation pays, with reasons.

    Reads the configurations alone: no weights, no hub. The times of forwards come from the device's
    data sheet, the acceptance from the kind of text unless it is given, and the rest from the
    simulator that ssd simulate runs. What is taken for granted is printed as notes.

    Example: ssd advise --target Qwen/Qwen3-32B --draft Qwen/Qwen3-0.6B --workload code --batch 4
    """
    with one_sentence_errors():
        question = Question(
            device=_one_of("--device", device, DEVICES),
            batch=batch,
            temperature=temperature,
            workload=workload,
            context=context,
            dtype=dtype,
            acceptance=acceptance,
            gpu_hour_price=gpu_hour_price,
        )
        if dtype is not None:
            _one_of("--dtype", dtype, BYTES)
        if draft is not None and draft_layers is not None:
            raise ConfigError("--self-layers makes the draft out of the target; leave out --draft")
        models = ModelsSection(target=target, draft=draft, draft_layers=draft_layers)
        draft_path = resolve_draft(models)
        large = describe(resolve_model(target, role="target"))
        small = None if draft_path is None else describe(draft_path, num_layers=draft_layers)
        with Console(stderr=True).status("simulating"):
            advice = advise_on(question, large, small)
    if as_json:
        print(json.dumps(_record(advice), indent=2))
    else:
        _show(advice, Console())


def _one_of(option: str, name: str, choices: Mapping[str, _Value]) -> _Value:
    if name not in choices:
        raise ConfigError(f"{option} must be one of {', '.join(choices)}, not {name}")
    return choices[name]


def _models(advice: Advice) -> dict[str, PlacedModel]:
    drafter = {} if advice.drafted is None else {"drafter": advice.drafted.draft}
    return {"verifier": advice.target, **drafter}


def _show(advice: Advice, console: Console) -> None:
    console.print(_memory_table(advice))
    if (drafted := advice.drafted) is not None:
        console.print(
            f"\nexpected per round: {drafted.tokens_per_round:.2f} tokens, a chain of"
            f" {drafted.depth} at acceptance {drafted.acceptance:.2f}\n",
            highlight=False,
        )
    console.print(_speed_table(advice))
    console.print()
    for reason in advice.reasons:
        side = "[green]for[/green]    " if reason.is_for else "[red]against[/red]"
        console.print(f"{side}  {reason.words}", highlight=False)
    console.print(f"\n[bold]{advice.verdict}[/bold]\n", highlight=False)
    for note in advice.notes:
        console.print(f"note: {note}", highlight=False)


def _memory_table(advice: Advice) -> Table:
    table = Table(box=None, header_style="bold")
    table.add_column("memory, GiB")
    for heading in ("parameters", "weights", "KV a token", "KV", "trees", "in all", "devices"):
        table.add_column(heading, justify="right")
    for role, model in _models(advice).items():
        memory = model.memory
        table.add_row(
            f"{role}, {model.dtype}",
            _count(model.shape.num_parameters),
            _gib(memory.weights),
            f"{memory.kv_per_token / 1024:.4g} KiB",
            _gib(memory.kv),
            _gib(memory.trees),
            _gib(memory.total),
            f"{model.num_devices} of {model.device.memory / _GIB:.0f}",
        )
    return table


def _speed_table(advice: Advice) -> Table:
    price = advice.question.gpu_hour_price
    table = Table(box=None, header_style="bold")
    table.add_column("mode")
    headings = ["tokens/s", "times ar", "per round", "hit rate", "devices", "tokens/s a device"]
    headings += [] if price is None else ["price of 1M tokens"]
    for heading in headings:
        table.add_column(heading, justify="right")
    for speed in advice.speeds:
        cells = [
            f"{speed.tokens_per_s:.1f}",
            f"{advice.speed_up(speed):.2f}",
            f"{speed.tokens_per_round:.2f}",
            "-" if speed.mode is not Mode.SSD else f"{speed.hit_rate:.2f}",
            str(speed.num_devices),
            f"{speed.per_device:.1f}",
        ]
        cells += [] if price is None else [f"{speed.price_per_million(price):.2f}"]
        table.add_row(speed.mode.value, *cells)
    return table


def _record(advice: Advice) -> dict[str, Any]:
    question = advice.question
    drafted = advice.drafted
    return {
        "question": {
            "device": question.device.name,
            "batch": question.batch,
            "temperature": question.temperature,
            "workload": question.workload.value,
            "context": question.context,
            "gpu_hour_price": question.gpu_hour_price,
        },
        "memory": {role: _memory_record(model) for role, model in _models(advice).items()},
        "acceptance": None if drafted is None else drafted.acceptance,
        "acceptance_is_assumed": None if drafted is None else drafted.is_assumed,
        "chain_depth": None if drafted is None else drafted.depth,
        "expected_tokens_per_round": None if drafted is None else drafted.tokens_per_round,
        "modes": {each.mode.value: _speed_record(advice, each) for each in advice.speeds},
        "for": [reason.words for reason in advice.reasons if reason.is_for],
        "against": [reason.words for reason in advice.reasons if not reason.is_for],
        "best_mode": advice.best.mode.value,
        "verdict": advice.verdict,
        "notes": list(advice.notes),
    }


def _memory_record(model: PlacedModel) -> dict[str, Any]:
    memory = model.memory
    return {
        "family": model.shape.family,
        "dtype": model.dtype,
        "parameters": model.shape.num_parameters,
        "weights_bytes": memory.weights,
        "kv_bytes_per_token": memory.kv_per_token,
        "kv_bytes": memory.kv,
        "tree_bytes": memory.trees,
        "total_bytes": memory.total,
        "devices": model.num_devices,
        "forward_ms": 1e3 * model.forward_s(num_rows=model.batch, num_texts=model.batch),
    }


def _speed_record(advice: Advice, speed: Speed) -> dict[str, Any]:
    price = advice.question.gpu_hour_price
    return {
        "tokens_per_s": speed.tokens_per_s,
        "speed_up": advice.speed_up(speed),
        "tokens_per_round": speed.tokens_per_round,
        "hit_rate": speed.hit_rate,
        "devices": speed.num_devices,
        "tokens_per_s_per_device": speed.per_device,
        "price_per_million_tokens": None if price is None else speed.price_per_million(price),
    }


def _count(number: int) -> str:
    for unit, size in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.2f}{unit}"
    return str(number)


def _gib(num_bytes: float) -> str:
    return f"{num_bytes / _GIB:.3g}"
