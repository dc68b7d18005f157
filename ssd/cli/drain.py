"""`ssd drain`: take a worker out of use without losing a token."""

from typing import Annotated

import typer

from ssd.cli.connection import connect
from ssd.cli.options import Address, one_sentence_errors


def drain(
    worker: Annotated[str, typer.Argument(help="Its name, as `ssd status` shows it.")],
    address: Address = None,
    *,
    undo: Annotated[bool, typer.Option(help="Put it back into use.")] = False,
) -> None:
    """Place no session on a worker any more, and move those it has where another can take them.

    Example: ssd drain verifier-0
    """
    with one_sentence_errors(), connect(address) as client:
        num_staying = client.drain(worker, undo=undo)
    if undo:
        print(f"{worker} is back in use")
    elif num_staying:
        print(
            f"{worker} drains; {num_staying} sessions finish there: no other worker can take them"
        )
    else:
        print(f"{worker} drains; it has no sessions")
