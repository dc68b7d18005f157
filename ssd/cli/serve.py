"""`ssd serve`: the whole service on this machine."""

from typing import Annotated

import typer
from rich.console import Console

from ssd.cli.connection import client_of
from ssd.cli.options import (
    INTERRUPTED_EXIT_CODE,
    Assignments,
    ConfigFile,
    Drafters,
    configuration,
    one_sentence_errors,
)
from ssd.cli.run_dir import run_dir
from ssd.config import SecuritySection
from ssd.core.errors import Unavailable
from ssd.core.mode import Mode
from ssd.v1.registry_pb2 import ROLE_VERIFIER

_READY_S = 60.0


def serve(
    target: Annotated[
        str | None, typer.Option(help="Target: embedded pair, folder, .gguf file or hub name.")
    ] = None,
    draft: Annotated[
        str | None, typer.Option(help="Draft: embedded pair, folder, .gguf file or hub name.")
    ] = None,
    draft_layers: Annotated[
        int | None,
        typer.Option(
            "--self-layers",
            "--draft-layers",
            help="Draft with this many first layers of the target.",
        ),
    ] = None,
    drafter: Drafters = None,
    dtype: Annotated[
        str | None, typer.Option(help="Number format of the target: fp32, bf16, fp16 or fp64.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    runner: Annotated[
        str | None, typer.Option(help="auto, or transformers for the library's own forward.")
    ] = None,
    kv_memory: Annotated[
        str | None, typer.Option(help="Memory for the target's KV, such as 4GiB; default auto.")
    ] = None,
    mode: Annotated[
        Mode | None, typer.Option(help="Mode of requests that name none: ssd, sd, ar, shadow.")
    ] = None,
    journal: Annotated[
        str | None,
        typer.Option(help="Folder in which sessions survive a restart of the coordinator."),
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port for clients; 0 picks a free one.")] = None,
    config: ConfigFile = None,
    assignments: Assignments = None,
) -> None:
    """Serve on this machine until Ctrl-C: Ray, drafter, verifier and coordinator.

    Example: ssd serve --target tales --draft tales
    """
    # Ray is needed here and by few other commands; loading it takes seconds.
    from ssd.cluster.local_service import local_service

    console = Console(stderr=True)
    flags = {
        "models.target": target,
        "models.draft": draft,
        "models.draft_layers": draft_layers,
        "speculation.drafters": drafter,
        "models.target_dtype": dtype,
        "models.device": device,
        "models.runner": runner,
        "verifier.kv_memory": kv_memory,
        "speculation.mode": mode,
        "coordinator.port": port,
        "coordinator.journal": journal,
    }
    with one_sentence_errors():
        settings = configuration(config, assignments, flags)
        try:
            with local_service(settings, run_dir=run_dir(), report=console.print) as service:
                service.wait_until(
                    lambda: is_serving(
                        service.address,
                        num_workers=len(service.workers),
                        security=settings.security,
                    ),
                    deadline_s=_READY_S,
                )
                for worker in service.workers:
                    console.print(f"{worker.name} on {worker.device_id}, process {worker.pid}")
                print(f"serving at {service.address}", flush=True)
                raise typer.Exit(service.launcher.wait())
        except KeyboardInterrupt:
            console.print("stopped")
            raise typer.Exit(INTERRUPTED_EXIT_CODE) from None


def is_serving(
    address: str, *, num_workers: int = 1, security: SecuritySection | None = None
) -> bool:
    """Whether a request would be taken, and this many workers have registered."""
    try:
        with client_of(security or SecuritySection(), address) as client:
            workers = client.status().workers
    except Unavailable:
        return False
    is_up = any(each.is_up and each.worker.role == ROLE_VERIFIER for each in workers)
    return is_up and len(workers) >= num_workers
