"""`ssd trace`: one request as a picture, a page and a trace."""

import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ssd.cli.connection import connect
from ssd.cli.options import (
    INTERRUPTED_EXIT_CODE,
    Assignments,
    ConfigFile,
    configuration,
    one_sentence_errors,
)
from ssd.cli.run_dir import run_dir
from ssd.cli.serve import is_serving
from ssd.config import SsdConfig
from ssd.core.errors import ConfigError
from ssd.core.mode import Mode
from ssd.report.measure import read_run
from ssd.report.run_record import Request, RunRecord
from ssd.wire.otlp_receiver import OtlpReceiver, as_json, otlp_receiver

_READY_S = 60.0
_SPANS_S = 10.0  # until the last span has come
_SERVICES = {"ssd-coordinator", "ssd-verifier", "ssd-drafter"}
_HEARTBEATS_S = 0.5  # the first tells the verifier the drafter's clock


def trace(
    prompt: Annotated[str, typer.Argument(help="Text to go on from.")],
    out: Annotated[Path, typer.Option(help="Folder for what it leaves.")] = Path("out/trace"),
    address: Annotated[
        str | None,
        typer.Option(help="Trace a request of this service, HOST:PORT, instead of one of its own."),
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=2, help="Tokens at most.")] = 96,
    temperature: Annotated[float, typer.Option(help="0 is greedy, at most 2.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same text.")] = 1,
    mode: Annotated[Mode, typer.Option(help="ssd, sd, ar or shadow.")] = Mode.SSD,
    config: ConfigFile = None,
    assignments: Assignments = None,
) -> None:
    """Run one traced request and leave timeline.png, timeline.html and, of a service of its own,
    trace.json: the spans in OTLP's JSON form, which Jaeger's page opens.

    With --address the request is marked as sampled, and its spans go where that service sends them.

    Example: ssd trace "Once upon a time"
    """
    console = Console()
    request = Request(mode, temperature, seed, "of the command line", prompt, max_tokens)
    trace_id = secrets.token_hex(16)
    with one_sentence_errors():
        try:
            _make_ready(out)
            if address is not None:
                run = _run(address, request, trace_id)
            else:
                quiet = ["logging.level=error", *(assignments or [])]
                settings = configuration(config, quiet, {"coordinator.port": 0})
                run = _run_here(settings, request, trace_id, out, console)
        except KeyboardInterrupt:
            console.print("stopped")
            raise typer.Exit(INTERRUPTED_EXIT_CODE) from None
        _draw(run, trace_id, out)
    console.print(run.text, markup=False, highlight=False)
    console.print(f"trace {trace_id}")
    for path in sorted(out.iterdir()):
        console.print(str(path), markup=False, highlight=False, soft_wrap=True)


def _make_ready(out: Path) -> None:
    """Raises ConfigError when the pictures could not be drawn or written."""
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise ConfigError("the picture needs matplotlib: pip install 'ssd-service[report]'")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {out}: {error.strerror}") from error


def _run(address: str, request: Request, trace_id: str) -> RunRecord:
    parent = f"00-{trace_id}-{secrets.token_hex(8)}-01"
    with connect(address) as client:
        sent_s = time.perf_counter()
        generation = client.generate(request.prompt, request.traced(parent))
        return read_run(
            generation,
            request,
            show=lambda text: None,
            elapsed_s=lambda: time.perf_counter() - sent_s,
        )


def _run_here(
    settings: SsdConfig, request: Request, trace_id: str, out: Path, console: Console
) -> RunRecord:
    """Serve, trace one request, and keep the spans that the three processes export."""
    # Ray is needed here and by few other commands; loading it takes seconds.
    from ssd.cluster.local_service import local_service

    with otlp_receiver() as receiver, _spans_go_to(receiver):
        with local_service(settings, run_dir=run_dir(), report=console.print) as service:
            service.wait_until(
                lambda: is_serving(service.address, num_workers=len(service.workers)),
                deadline_s=_READY_S,
            )
            time.sleep(_HEARTBEATS_S)
            run = _run(service.address, request, trace_id)
            wanted = _SERVICES if request.mode is not Mode.AR else _SERVICES - {"ssd-drafter"}
            receiver.wait_until(lambda: _has_all(receiver, wanted), timeout_s=_SPANS_S)
        # Whatever waited was sent when the processes ended.
        document = as_json(receiver.requests)
    (out / "trace.json").write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return run


def _has_all(receiver: OtlpReceiver, services: set[str]) -> bool:
    spans = receiver.spans
    is_ended = any(span.name.startswith("text_completion") for _, span in spans)
    return is_ended and {origin for origin, _ in spans} >= services


@contextmanager
def _spans_go_to(receiver: OtlpReceiver) -> Iterator[None]:
    """What starts in the block exports every span to us, whatever this shell's variables say."""
    before = {key: value for key, value in os.environ.items() if key.startswith("OTEL_")}
    for key in before:
        del os.environ[key]
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = receiver.endpoint
    os.environ["OTEL_EXPORTER_OTLP_INSECURE"] = "true"
    os.environ["OTEL_BSP_SCHEDULE_DELAY"] = "500"
    try:
        yield
    finally:
        for key in [each for each in os.environ if each.startswith("OTEL_")]:
            del os.environ[key]
        os.environ.update(before)


def _draw(run: RunRecord, trace_id: str, out: Path) -> None:
    from ssd.report.timeline import draw_timeline
    from ssd.report.timeline_page import write_timeline_page

    title = f"Drafting while verifying: {len(run.rounds)} rounds, trace {trace_id}"
    draw_timeline(run.rounds, run.growth, out / "timeline.png", title=title, caption=run.summary)
    write_timeline_page(
        run.rounds, run.growth, out / "timeline.html", title=title, caption=run.summary
    )
