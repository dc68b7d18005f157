"""An n-gram drafter put together: no model, and a thread that mostly sleeps."""

import asyncio
import json
import secrets
import uuid
from pathlib import Path

import grpc.aio

from drafter_service.ngram_machine import NgramMachine
from drafter_service.servicer import DrafterServicer
from drafter_service.telemetry import make_telemetry
from ssd.config import SsdConfig, ngram_limits_of, resolve_model
from ssd.core.drafter_kind import TRAITS, DrafterKind
from ssd.core.drafter_outputs import Output
from ssd.core.errors import ConfigError
from ssd.core.ngram_drafter import NgramDrafter
from ssd.engine.checkpoint import find_checkpoint
from ssd.engine.engine_thread import EngineThread
from ssd.telemetry.drafter_metrics import DrafterMetrics
from ssd.telemetry.tracing import Tracing
from ssd.telemetry.worker_metrics import KvFacts, WorkerFacts
from ssd.tokenizer.vocabulary import Vocabulary
from ssd.v1 import drafter_pb2_grpc
from ssd.wire.hello import Capabilities
from ssd.worker.host import exit_when_engine_dies
from ssd.worker.stall_watch import Pulse

_AHEAD = 64  # candidates at a time: a message's way and back is several tokens long
_NUM_LIVES = 2**20
_NO_KV = KvFacts(0, 0, 0, 0, 0, 0, 0)


def ngram_capabilities(config: SsdConfig) -> Capabilities:
    """What an n-gram drafter for this target says of itself; of the model it reads the tokenizer.

    Raises:
        ConfigError: there is no such model, or it has no tokenizer.
    """
    target = resolve_model(config.models.target, role="target")
    checkpoint = find_checkpoint(target, offline=config.models.hub_offline)
    file = checkpoint.tokenizer_file
    if file is None:
        raise ConfigError(f"{checkpoint.name} has no tokenizer.json, so its ids cannot be compared")
    vocabulary = Vocabulary.from_file(file)
    return Capabilities(
        instance_id=uuid.uuid4().hex,
        model_name="ngram",
        fingerprint="",
        vocabulary_digest=vocabulary.digest,
        special_digest=vocabulary.special_digest,
        vocab_size=len(vocabulary.tokens),
        context_len=_context_len(checkpoint.folder),
        eos_token_ids=(),
        dtype="",
        drafter=TRAITS[DrafterKind.NGRAM],
    )


class NgramService:
    """Made inside a running event loop; see `ssd.worker.host.WorkerService`."""

    def __init__(
        self, config: SsdConfig, me: Capabilities, *, tracing: Tracing | None = None
    ) -> None:
        limits = ngram_limits_of(config, max_nodes=_AHEAD)
        core = NgramDrafter(limits, life=secrets.randbelow(_NUM_LIVES))
        self.machine = NgramMachine(core)
        self.servicer = DrafterServicer(self.machine, me, (), lease_s=config.timeouts.lease_s)
        self.engine: EngineThread[Output] = EngineThread(
            "ngram-engine",
            self.machine,
            deliver=self.servicer.deliver,
            died=exit_when_engine_dies,
        )
        self.servicer.engine = self.engine
        self.metrics = DrafterMetrics(self._facts, num_verifiers=lambda: self.servicer.num_peers)
        self.servicer.telemetry = make_telemetry(self.metrics, tracing)
        self.stall_limit_s = config.timeouts.engine_stall_s

    @property
    def has_sessions(self) -> bool:
        """A drafter is missed by nobody: rounds go on without it."""
        return False

    def pulses(self) -> tuple[Pulse, ...]:
        return (Pulse(has_work=self.engine.is_busy, num_done=self.engine.num_turns),)

    def add_to(self, server: grpc.aio.Server) -> None:
        drafter_pb2_grpc.add_DrafterServiceServicer_to_server(self.servicer, server)

    def start(self) -> None:
        self.engine.start()

    async def stop(self) -> None:
        await asyncio.to_thread(self.engine.stop)
        self.servicer.telemetry.close()

    def _facts(self) -> WorkerFacts:
        core = self.machine.core
        return WorkerFacts(
            num_sessions=len(core.sessions),
            kv=_NO_KV,
            memory_bytes={},
            device_s=0.0,
            num_stale=core.num_stale,
            num_dropped=self.servicer.num_dropped,
        )


def _context_len(folder: Path) -> int:
    """As the target's configuration has it; a text is never longer than its verifier takes."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    return int(config.get("max_position_embeddings", 2**31 - 1))
