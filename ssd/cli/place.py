"""`ssd place`: put drafter and verifier on a Ray cluster, then leave."""

import json
from typing import Annotated

import typer

from ssd.cli.options import Assignments, ConfigFile, configuration, one_sentence_errors


def place(
    ray_address: Annotated[
        str | None,
        typer.Option(help="Head of the Ray cluster: HOST:PORT, ray://HOST:PORT or auto."),
    ] = None,
    *,
    remove: Annotated[bool, typer.Option(help="Take the workers off again.")] = False,
    wait_s: Annotated[
        float, typer.Option(help="Seconds in which the cluster and its nodes may still come up.")
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    config: ConfigFile = None,
    assignments: Assignments = None,
) -> None:
    """Create the workers as detached Ray actors, a device each; repeating is harmless.

    The workers register with the coordinators by gRPC; Ray restarts them when they die.
    """
    from ssd.cluster import placement
    from ssd.cluster.local_service import check_models, worker_specs

    with one_sentence_errors():
        settings = configuration(config, assignments, {"cluster.ray_address": ray_address})
        cluster = settings.cluster
        if remove:
            placement.remove(address=cluster.ray_address, namespace=cluster.namespace)
            return
        check_models(settings)
        specs = worker_specs(settings)
        if wait_s:
            placement.wait_for_devices(
                specs, address=cluster.ray_address, require_gpu=cluster.require_gpu, wait_s=wait_s
            )
        workers = placement.place(
            specs,
            address=cluster.ray_address,
            namespace=cluster.namespace,
            require_gpu=cluster.require_gpu,
        )
        if as_json:
            print(
                json.dumps(
                    [
                        {"name": each.name, "address": each.address, "device": each.device_id}
                        for each in workers
                    ]
                )
            )
            return
        for worker in workers:
            print(f"{worker.name} at {worker.address} on {worker.device_id}")
