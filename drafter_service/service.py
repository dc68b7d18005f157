"""The drafter put together: draft model, core, engine thread, servicer."""

import asyncio
import secrets

import grpc.aio

from drafter_service.machine import DrafterMachine
from drafter_service.servicer import DrafterServicer
from drafter_service.telemetry import make_telemetry
from ssd.config import SsdConfig
from ssd.core.drafter_limits import DrafterLimits
from ssd.core.drafter_outputs import Output
from ssd.core.growth import GrowthLimits, chain_limits, tree_limits
from ssd.core.recorded_drafter import RecordedDrafter
from ssd.engine.engine_thread import EngineThread, run_like_engine
from ssd.engine.loading import LoadedModel
from ssd.sampling.draft_law import DraftPolicy
from ssd.telemetry.drafter_metrics import DrafterMetrics
from ssd.telemetry.tracing import Tracing
from ssd.telemetry.worker_metrics import WorkerFacts
from ssd.v1 import drafter_pb2_grpc
from ssd.wire.flight_file import DRAFTER, FlightStore, flight_dir
from ssd.wire.hello import Capabilities
from ssd.worker.facts import kv_of, memory_of, read_from_outside
from ssd.worker.host import exit_when_engine_dies
from ssd.worker.kv_memory import kv_slots
from ssd.worker.model import device_of
from ssd.worker.stall_watch import Pulse
from ssd.worker.warm_up import measured_cost

_CPU_SHARE = 0.2  # the target's KV is larger
_SLOW_STEPS = 5.0
# A step's number stays below 2^53, which is what JSON and browsers count exactly.
_NUM_LIVES = 2**20


class DrafterService:
    """Made inside a running event loop; see `ssd.worker.host.WorkerService`."""

    def __init__(
        self,
        config: SsdConfig,
        draft: LoadedModel,
        me: Capabilities,
        *,
        core: int | None,
        tracing: Tracing | None = None,
    ) -> None:
        cost = run_like_engine(
            lambda: measured_cost(draft), core=core, num_threads=config.drafter.threads
        )
        limits = _limits(config, draft)
        state = RecordedDrafter(limits, life=secrets.randbelow(_NUM_LIVES), cost=cost)
        self.machine = DrafterMachine(
            state,
            draft.runner,
            vocab_size=draft.vocab_size,
            policy=_policy(config),
            device=draft.device,
        )
        vocabulary = draft.vocabulary
        special_ids = sorted(vocabulary.special_ids) if vocabulary is not None else []
        self.servicer = DrafterServicer(
            self.machine, me, special_ids, lease_s=config.timeouts.lease_s
        )
        self.engine: EngineThread[Output] = EngineThread(
            "drafter-engine",
            self.machine,
            deliver=self.servicer.deliver,
            died=self._died,
            core=core,
            num_threads=config.drafter.threads,
        )
        self.servicer.engine, self.servicer.flights = self.engine, state.flights
        self._flights = state.flights
        self._store = FlightStore(
            flight_dir(config.logging.flight_dir), config.logging.flight_tokens, DRAFTER
        )
        self.metrics = DrafterMetrics(
            lambda: self._facts(draft), num_verifiers=lambda: self.servicer.num_peers
        )
        self.servicer.telemetry = make_telemetry(self.metrics, tracing)

        # A step of all rows of a large draft on a slow device may take long and not hang.
        self.stall_limit_s = max(
            config.timeouts.engine_stall_s, _SLOW_STEPS * cost.forward_s(config.drafter.max_rows)
        )

    @property
    def has_sessions(self) -> bool:
        """A drafter is missed by nobody: rounds go on without it."""
        return False

    def _died(self, error: BaseException) -> None:
        """On the engine's thread: leave behind what may explain it, if there is memory for it."""
        try:
            names = self._flights.running_names
            records = [(key[1], self._flights.record_of(key)) for key in names]
            self._store.leave(records, f"{type(error).__name__}: {error}")
        finally:
            exit_when_engine_dies(error)

    def pulses(self) -> tuple[Pulse, ...]:
        return (Pulse(has_work=self.engine.is_busy, num_done=self.engine.num_turns),)

    def add_to(self, server: grpc.aio.Server) -> None:
        drafter_pb2_grpc.add_DrafterServiceServicer_to_server(self.servicer, server)

    def start(self) -> None:
        self.engine.start()

    async def stop(self) -> None:
        await asyncio.to_thread(self.engine.stop)
        self.servicer.telemetry.close()

    def _facts(self, draft: LoadedModel) -> WorkerFacts:
        core = self.machine.core
        return WorkerFacts(
            num_sessions=len(core.sessions),
            kv=read_from_outside(lambda: kv_of(core.pool, num_preempted=core.num_dropped)),
            memory_bytes=read_from_outside(lambda: memory_of(draft)),
            device_s=self.machine.device_s,
            num_stale=core.num_stale,
            num_dropped=self.servicer.num_dropped,
        )


def _policy(config: SsdConfig) -> DraftPolicy:
    drafter = config.drafter
    return DraftPolicy(
        num_proposals=drafter.siblings or 1,
        law_len=drafter.law_size,
        top_weight=drafter.saguaro,
    )


def _limits(config: SsdConfig, draft: LoadedModel) -> DrafterLimits:
    drafter = config.drafter
    slots = kv_slots(
        draft,
        memory=drafter.kv_memory,
        slots=drafter.kv_slots,
        device=device_of(config),
        cpu_share=_CPU_SHARE,
    )
    growth = GrowthLimits(
        num_candidates=drafter.candidates,
        frontier=drafter.frontier,
        urgent_frontier=drafter.frontier_while_waiting,
        max_depth=drafter.max_depth,
        min_reach=drafter.min_reach,
        min_step_reach=drafter.min_step_reach,
        num_siblings=drafter.siblings,
        order=drafter.growth,
    )
    chain = chain_limits(drafter.sd_depth)
    if drafter.sd_frontier > 1:
        chain = tree_limits(drafter.sd_depth, drafter.sd_frontier, growth)
    return DrafterLimits(
        context_len=draft.context_len,
        kv_slots=slots,
        growth=growth,
        chain=chain,
        max_rows=drafter.max_rows,
        prefill_rows=drafter.prefill_rows,
    )
