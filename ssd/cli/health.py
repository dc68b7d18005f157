"""`ssd health`: one process's own word on whether it serves; a probe for Kubernetes."""

from typing import Annotated

import typer

from ssd.cli.options import Assignments, ConfigFile, configuration, one_sentence_errors
from ssd.wire.health_check import expect_serving
from ssd.wire.security import Security


def health(
    address: Annotated[
        str | None,
        typer.Option(help="The process, as HOST:PORT; default: the configured coordinator."),
    ] = None,
    service: Annotated[
        str,
        typer.Option(help="ssd.v1.GenerationService: whether a coordinator can take requests."),
    ] = "",
    timeout_s: Annotated[float, typer.Option(min=0.1, help="Seconds for the answer.")] = 1.0,
    config: ConfigFile = None,
    assignments: Assignments = None,
) -> None:
    """Ask a coordinator, verifier or drafter for its gRPC health; exit status 1 unless it serves.

    Encrypted where the configuration's section security is, which gRPC probes of Kubernetes
    cannot be.

    Example: ssd health --address 127.0.0.1:50051
    """
    with one_sentence_errors():
        settings = configuration(config, assignments)
        coordinator = settings.coordinator
        where = address or f"{coordinator.host}:{coordinator.port}"
        expect_serving(where, service, timeout_s=timeout_s, security=Security.of(settings.security))
    print("SERVING")
