"""Workers as small as the contract of placement allows; they import neither torch nor grpc."""

import os
from typing import Any

import ray


class ToyActor:
    """Serves nothing, on the device Ray gave it."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config

    def address(self) -> str:
        return f"127.0.0.1:{os.getpid()}"

    def device(self) -> tuple[str, str]:
        context = ray.get_runtime_context()
        gpu_ids = context.get_accelerator_ids()["GPU"]
        device_id = f"cuda:{gpu_ids[0]}" if gpu_ids else f"cpu:{self._config['core']}"
        return context.get_node_id(), device_id

    def pid(self) -> int:
        return os.getpid()

    def stop(self) -> None:
        pass

    def visible_gpus(self) -> str | None:
        return os.environ.get("CUDA_VISIBLE_DEVICES")


class SharingActor(ToyActor):
    """Claims the same device wherever it is placed."""

    def device(self) -> tuple[str, str]:
        return ray.get_runtime_context().get_node_id(), "cuda:0"


class RefusingActor(ToyActor):
    """Dies while it is constructed."""

    def __init__(self, config: dict[str, Any]) -> None:
        raise ValueError("the model needs 80 GB and the device has 8")


class DeafActor(ToyActor):
    """Never answers in time."""

    def address(self) -> str:
        import time

        time.sleep(60)
        return ""
