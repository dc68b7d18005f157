"""The drafter as a Ray actor: pinned by Ray, restarted by Ray, spoken to over gRPC only."""

import os
from collections.abc import Mapping
from typing import Any

import ray


class DrafterActor:
    """Serves from construction to `stop`; `placement` is {"name", "settings", "core"}."""

    def __init__(self, placement: Mapping[str, Any]) -> None:
        # Imported here: whoever places actors has no torch.
        from drafter_service.process import place_of, run_drafter
        from ssd.config import SsdConfig
        from ssd.telemetry.logs import configure_logs
        from ssd.worker.background import BackgroundWorker
        from ssd.worker.device import device_id
        from ssd.worker.restart_backoff import wait_before_restart

        config = SsdConfig.model_validate(placement["settings"])
        configure_logs(level=config.logging.level, log_format=config.logging.format)
        self._place = place_of(
            config,
            name=placement["name"],
            node=ray.get_runtime_context().get_node_id(),
            device=device_id(placement.get("core")),
            core=placement.get("core"),
        )
        if ray.get_runtime_context().was_current_actor_reconstructed:
            wait_before_restart(f"{placement['name']} for {self._place.coordinators}")
        self._worker = BackgroundWorker(
            lambda stop, ready: run_drafter(
                config, self._place, stop=stop, ready=ready, environ=os.environ
            )
        )
        if ray.get_runtime_context().was_current_actor_reconstructed:
            self._worker.address()  # nobody asks again: what cannot serve must die here

    def address(self) -> str:
        """host:port, once it serves."""
        return self._worker.address()

    def device(self) -> tuple[str, str]:
        """(node id, device id), which no two workers share."""
        return self._place.node, self._place.device

    def pid(self) -> int:
        return os.getpid()

    def stop(self) -> None:
        self._worker.stop()
