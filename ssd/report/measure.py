"""Ask for a generation and read it to its end with an eye on the clock."""

import time
from collections.abc import Callable

from ssd.client import Client, Generation
from ssd.report.run_record import Request, RunRecord


def run(
    client: Client, request: Request, *, show: Callable[[str], None] = lambda text: None
) -> RunRecord:
    """`show` gets each piece of text after its time has been taken."""
    sent_s = time.perf_counter()
    generation = client.generate(request.prompt, request.options)
    return read_run(generation, request, show=show, elapsed_s=lambda: time.perf_counter() - sent_s)


def read_run(
    generation: Generation,
    request: Request,
    *,
    show: Callable[[str], None],
    elapsed_s: Callable[[], float],
) -> RunRecord:
    """The record of a generation; `elapsed_s` says how long ago it was asked for."""
    texts: list[str] = []
    token_ids: list[int] = []
    arrivals_s: list[float] = []
    for piece in generation:
        if piece.token_ids:
            arrivals_s.append(elapsed_s())
        texts.append(piece.text)
        token_ids.extend(piece.token_ids)
        show(piece.text)
    completion = generation.completion
    return RunRecord(
        request=request,
        text="".join(texts),
        token_ids=tuple(token_ids),
        finish_reason=completion.finish_reason,
        first_token_s=arrivals_s[0] if arrivals_s else 0.0,
        last_token_s=arrivals_s[-1] if arrivals_s else 0.0,
        rounds=completion.rounds,
        growth=completion.growth,
    )
