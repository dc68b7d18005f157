"""The verifier put together: target, core, engine thread, servicer, links to drafters."""

import asyncio
import time
from collections.abc import Sequence

import grpc.aio
import structlog

from ssd.config import SsdConfig, drafters_of, needs_process, ngram_limits_of
from ssd.core.drafter_kind import DrafterKind
from ssd.core.errors import Poisoned
from ssd.core.ids import SessionId
from ssd.core.messages import Refused
from ssd.core.recorded_verifier import RecordedVerifier
from ssd.core.speculation_control import ControlLimits
from ssd.core.verifier_limits import VerifierLimits
from ssd.core.verifier_outputs import Output, ToCoordinator
from ssd.engine.engine_thread import EngineThread, run_like_engine
from ssd.engine.loading import LoadedModel
from ssd.telemetry.tracing import Tracing
from ssd.telemetry.verifier_metrics import VerifierFacts
from ssd.telemetry.worker_metrics import WorkerFacts
from ssd.v1 import verifier_pb2_grpc
from ssd.wire.dialed_stream import StreamTimeouts
from ssd.wire.flight_file import VERIFIER, FlightStore, flight_dir
from ssd.wire.hello import Capabilities
from ssd.wire.security import Security
from ssd.worker.facts import kv_of, memory_of, read_from_outside
from ssd.worker.host import exit_when_engine_dies
from ssd.worker.kv_memory import kv_slots
from ssd.worker.model import chat_format, device_of, tokenizer_json
from ssd.worker.stall_watch import Pulse
from ssd.worker.warm_up import measured_cost
from verifier_service.drafter_links import DrafterLinks
from verifier_service.machine import VerifierMachine
from verifier_service.servicer import VerifierServicer
from verifier_service.telemetry import make_telemetry

_CPU_SHARE = 0.4
_SLOW_ROUNDS = 5.0
log = structlog.get_logger()


class VerifierService:
    """Made inside a running event loop; see `ssd.worker.host.WorkerService`."""

    def __init__(
        self,
        config: SsdConfig,
        target: LoadedModel,
        me: Capabilities,
        *,
        core: int | None,
        tracing: Tracing | None = None,
    ) -> None:
        cost = run_like_engine(
            lambda: measured_cost(target), core=core, num_threads=config.verifier.threads
        )
        verifier = RecordedVerifier(_limits(config, target), cost)
        self.flights = verifier.flights
        self._store = FlightStore(
            flight_dir(config.logging.flight_dir), config.logging.flight_tokens, VERIFIER
        )
        self.machine = VerifierMachine(verifier, target.runner, device=target.device)
        self.servicer = VerifierServicer(
            self.machine, me, tokenizer_json(target), lease_s=config.timeouts.lease_s
        )
        self.servicer.chat = chat_format(config, target)
        self.engine: EngineThread[Output] = EngineThread(
            "verifier-engine",
            self.machine,
            deliver=self._deliver,
            died=self._died,
            core=core,
            num_threads=config.verifier.threads,
        )
        self._links = DrafterLinks(
            self.machine,
            self.engine.post,
            me=me,
            timeouts=_stream_timeouts(config),
            delay_s=config.verifier.drafter_delay_ms / 1e3,
        )
        self.servicer.engine, self.servicer.links = self.engine, self._links
        self.servicer.flights = self.flights
        facts = VerifierFacts(
            worker=lambda: self._facts(target),
            now_ns=time.monotonic_ns,
            num_drafters=lambda: len(self.machine.core.drafters),
            plain_s=cost.forward_s,
        )
        telemetry = make_telemetry(facts, tracing, offset_ns=self._links.clock_offset_ns)
        self.servicer.telemetry, self.metrics = telemetry, telemetry.metrics

        # A round of all rows of a large model on a slow device may take long and not hang.
        self.stall_limit_s = max(
            config.timeouts.engine_stall_s,
            _SLOW_ROUNDS * cost.forward_s(config.verifier.max_rows),
        )

    @property
    def has_sessions(self) -> bool:
        return self.machine.core.has_work

    def _deliver(self, outputs: list[Output]) -> None:
        """On the engine's thread: pass outputs on; who made the engine fail leaves its record."""
        for output in outputs:
            if not (isinstance(output, ToCoordinator) and isinstance(output.message, Refused)):
                continue
            if output.message.kind == Poisoned.__name__:
                self._leave_records([output.message.session_id], output.message.message)
        self.servicer.deliver(outputs)

    def _died(self, error: BaseException) -> None:
        """On the engine's thread: leave behind what may explain it, if there is memory for it."""
        try:
            self._leave_records(self.flights.running_names, f"{type(error).__name__}: {error}")
        finally:
            exit_when_engine_dies(error)

    def _leave_records(self, session_ids: Sequence[SessionId], reason: str) -> None:
        records = [(each, self.flights.record_of(each)) for each in session_ids]
        self._store.leave(records, reason)

    def pulses(self) -> tuple[Pulse, ...]:
        core, engine = self.machine.core, self.engine
        return (
            Pulse(has_work=engine.is_busy, num_done=engine.num_turns),
            Pulse(has_work=core.has_work, num_done=core.num_rounds),
        )

    def add_to(self, server: grpc.aio.Server) -> None:
        verifier_pb2_grpc.add_VerifierServiceServicer_to_server(self.servicer, server)

    def start(self) -> None:
        self.engine.start()

    async def stop(self) -> None:
        await self._links.close()
        await asyncio.to_thread(self.engine.stop)
        self.servicer.telemetry.close()

    def _facts(self, target: LoadedModel) -> WorkerFacts:
        core = self.machine.core
        return WorkerFacts(
            num_sessions=len(core.sessions),
            kv=read_from_outside(
                lambda: kv_of(core.room.pool, num_preempted=core.room.num_preempted)
            ),
            memory_bytes=read_from_outside(lambda: memory_of(target)),
            device_s=self.machine.device_s,
            num_stale=core.num_stale,
            num_dropped=self.servicer.num_dropped + self._links.num_dropped,
        )


def longest_text(config: SsdConfig, target: LoadedModel) -> int:
    """Tokens of prompt and output that fit the model and, beside a tree, this verifier's KV."""
    tree_slots = max(config.verifier.max_tree_nodes, config.drafter.sd_depth) + 1
    return min(target.context_len, kv_slots_of(config, target) - tree_slots)


def kv_slots_of(config: SsdConfig, target: LoadedModel) -> int:
    """Raises ConfigError where the configured memory is too little."""
    verifier = config.verifier
    return kv_slots(
        target,
        memory=verifier.kv_memory,
        slots=verifier.kv_slots,
        device=device_of(config),
        cpu_share=_CPU_SHARE,
    )


def _limits(config: SsdConfig, target: LoadedModel) -> VerifierLimits:
    max_nodes = config.verifier.max_tree_nodes
    ngram = DrafterKind.NGRAM
    drafts_itself = ngram in drafters_of(config) and not needs_process(ngram, config)
    return VerifierLimits(
        vocab_size=target.vocab_size,
        context_len=longest_text(config, target),
        kv_slots=kv_slots_of(config, target),
        max_nodes=max_nodes,
        ngram=ngram_limits_of(config, max_nodes=max_nodes) if drafts_itself else None,
        shares_ngrams=config.ngram.shared,
        control=ControlLimits(
            is_on=config.speculation.adapt,
            pause_rounds=config.speculation.pause_rounds,
            probe_rounds=config.speculation.probe_rounds,
            min_acceptance=config.speculation.min_acceptance,
        ),
        max_rows=config.verifier.max_rows,
        sd_depth=config.drafter.sd_depth,
        sd_patience_s=config.timeouts.peer_dead_s,
        sd_is_tree=config.drafter.sd_frontier > 1,
    )


def _stream_timeouts(config: SsdConfig) -> StreamTimeouts:
    timeouts = config.timeouts
    return StreamTimeouts(
        timeouts.heartbeat_s,
        timeouts.peer_dead_s,
        timeouts.connect_s,
        Security.of(config.security),
    )
