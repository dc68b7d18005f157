"""`ssd status`: who serves, and what runs."""

from typing import Annotated

import typer
from google.protobuf.json_format import MessageToJson
from rich.console import Console
from rich.table import Table

from ssd.cli.connection import connect
from ssd.cli.options import Address, one_sentence_errors
from ssd.v1 import registry_pb2


def status(
    address: Address = None,
    *,
    sessions: Annotated[
        bool, typer.Option("--sessions", help="Show the ledger: the books beside what is held.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the workers a coordinator knows and the sessions it runs."""
    with one_sentence_errors(), connect(address) as client:
        answer = client.status()
    if as_json:
        print(MessageToJson(answer, preserving_proto_field_name=True))
        return
    console = Console()
    console.print(_workers(answer))
    if sessions:
        console.print(_ledger(answer))
        if answer.moves:
            counts = ", ".join(f"{each.count} {each.reason}" for each in answer.moves)
            console.print(f"sessions were opened for: {counts}")
    elif answer.sessions:
        console.print(_sessions(answer))


def _workers(answer: registry_pb2.GetStatusResponse) -> Table:
    table = Table("worker", "model", "address", "device", "process", "state")
    for each in answer.workers:
        worker = each.worker
        table.add_row(
            worker.name,
            f"{worker.hello.model_name} ({worker.hello.dtype})",
            worker.address,
            worker.device,
            str(worker.process_id),
            "up" if each.is_up else each.reason,
        )
    return table


def _sessions(answer: registry_pb2.GetStatusResponse) -> Table:
    table = Table("session", "epoch", "verifier", "prompt", "committed")
    for each in answer.sessions:
        table.add_row(
            each.session_id,
            str(each.epoch),
            each.verifier or "waits for one",
            str(each.prompt_len),
            str(each.committed_len),
        )
    return table


def _ledger(answer: registry_pb2.GetStatusResponse) -> Table:
    """The books' epoch and length, and beside them what the verifier said last."""
    table = Table("session", "verifier", "epoch", "committed", "held", "kv", "key", "round")
    for each in answer.sessions:
        is_said = bool(each.held_epoch)
        table.add_row(
            each.session_id,
            each.verifier or "waits for one",
            str(each.epoch),
            str(each.committed_len),
            str(each.held_epoch) if is_said else "not said yet",
            str(each.kv_len) if is_said else "",
            f"{each.held_key:016x}" if is_said else "",
            str(each.last_round) if is_said else "",
        )
    return table
