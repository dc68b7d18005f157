"""`ssd bench oracle`: a recorded run beside the best that its drafters allowed."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ssd.cli.options import one_sentence_errors
from ssd.core.cost_model import CostModel
from ssd.core.errors import ConfigError
from ssd.core.hindsight import Hindsight, hindsight
from ssd.wire.flight_file import VERIFIER, unpack


def oracle(
    files: Annotated[list[Path], typer.Argument(help="What `ssd dump --with-tokens` wrote.")],
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of a tree, at most.")] = 8,
    row_share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="What one more row adds to a forward of one.")
    ] = 0.03,
) -> None:
    """Compare recorded sessions with the best choice of drafters in each round, in hindsight.

    Example: ssd dump 5f0c-0 --with-tokens && ssd bench oracle 5f0c-0-0.flight
    """
    cost = CostModel([(1, 1.0), (nodes + 1, 1.0 + nodes * row_share)])
    with one_sentence_errors():
        records = []
        for path in files:
            try:
                file = unpack(path.read_bytes())
            except OSError as error:
                raise ConfigError(f"cannot read {path}: {error.strerror}") from error
            if file.role != VERIFIER:
                continue  # the coordinator's books hold no drafts
            if not file.with_tokens:
                raise ConfigError(f"{path} holds no token ids: dump it with --with-tokens")
            records.append(file.segments)
        seen = hindsight(records, cost, max_nodes=nodes)
        if not seen.num_rounds:
            raise ConfigError("the files hold no rounds of a verifier")
    Console().print(_table(seen))


def _table(seen: Hindsight) -> Table:
    table = Table(title=f"{seen.num_rounds} rounds, tokens per plain forward")
    for column in ("run", "tokens", "share of the best"):
        table.add_column(column, justify="left" if column == "run" else "right")
    rows = {"as it was": seen.actual, "best in hindsight": seen.best}
    rows |= {f"always {name}": rate for name, rate in seen.always.items()}
    for name, rate in rows.items():
        table.add_row(name, f"{rate:.2f}", f"{rate / seen.best:.2f}")
    return table
