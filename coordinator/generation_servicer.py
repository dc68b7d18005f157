"""`GenerationService`: what clients call.

A token is in the books before any client sees it. A client that takes nothing for a while is
cancelled; one that is slow holds back nobody, because its tokens wait in its own books.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import structlog

from coordinator.admission import RequestDefaults, admit
from coordinator.registry import Registry
from coordinator.request_watch import RequestTelemetry, RequestWatch
from coordinator.served_model import ServedModel
from coordinator.session_table import LiveSession, SessionTable
from ssd.core.client_session import ClientSession
from ssd.core.errors import SsdError, Unavailable
from ssd.core.ids import SessionId
from ssd.core.mode import Mode
from ssd.core.rounds import Lookup, RoundFigures, figures_of
from ssd.v1 import generation_pb2, generation_pb2_grpc
from ssd.wire.codec import FINISH_REASONS, MODES, encode_round, encode_spans
from ssd.wire.status import status_code

log = structlog.get_logger()


class _ClientStalled(Exception):
    """The client takes nothing; `writing` ends when it does, or when it leaves."""

    def __init__(self, writing: asyncio.Future[None]) -> None:
        super().__init__()
        self.writing = writing


class GenerationServicer(generation_pb2_grpc.GenerationServiceServicer):
    """Streams committed text to clients."""

    def __init__(
        self,
        table: SessionTable,
        registry: Registry,
        defaults: RequestDefaults,
        *,
        telemetry: RequestTelemetry,
        stalled_client_s: float,
    ) -> None:
        self._table = table
        self._registry = registry
        self._defaults = defaults
        self._telemetry = telemetry
        self._stalled_client_s = stalled_client_s

    async def Generate(  # noqa: N802 (the name is the protocol's)
        self, request: generation_pb2.GenerateRequest, context: Any
    ) -> None:
        with self._telemetry.watched(dict(context.invocation_metadata() or ())) as watch:
            await self._generate(request, context, watch)

    async def _generate(
        self, request: generation_pb2.GenerateRequest, context: Any, watch: RequestWatch
    ) -> None:
        try:
            model = self._model()
            # Not on the event loop: a long text takes the tokenizer long.
            admission = await asyncio.to_thread(admit, request, model, self._defaults)
            async with self._table.admitted(admission, model.target.fingerprint, watch) as live:
                await self._stream(live, model, request, context)
        except SsdError as error:
            watch.failed(error)
            await context.abort(status_code(error), str(error))
        except _ClientStalled as stalled:
            log.warning("stalled client cancelled", session_id=request.request_id)
            await stalled.writing  # a status may follow only when all writes have ended
            await context.abort(
                grpc.StatusCode.CANCELLED,
                f"the client took nothing for {self._stalled_client_s:g} s",
            )

    async def Cancel(  # noqa: N802 (the name is the protocol's)
        self, request: generation_pb2.CancelRequest, context: Any
    ) -> generation_pb2.CancelResponse:
        try:
            self._table.cancel(SessionId(request.request_id))
        except SsdError as error:
            await context.abort(status_code(error), str(error))
        return generation_pb2.CancelResponse()

    async def GetModelInfo(  # noqa: N802 (the name is the protocol's)
        self, request: generation_pb2.GetModelInfoRequest, context: Any
    ) -> generation_pb2.GetModelInfoResponse:
        try:
            model = self._model()
        except SsdError as error:
            await context.abort(status_code(error), str(error))
        modes = list(Mode) if self._defaults.allow_request_mode else [self._defaults.mode]
        return generation_pb2.GetModelInfoResponse(
            model_name=model.target.model_name,
            fingerprint=model.target.fingerprint,
            dtype=model.target.dtype,
            vocab_size=model.target.vocab_size,
            context_len=model.target.context_len,
            eos_token_ids=model.target.eos_token_ids,
            default_mode=MODES[self._defaults.mode],
            allowed_modes=[MODES[mode] for mode in modes],
            exactness=model.exactness,
        )

    def _model(self) -> ServedModel:
        """Raises Unavailable while no verifier is attached."""
        for link in self._registry.links.values():
            if link.is_attached and link.model is not None:
                return link.model
        raise Unavailable("no verifier is attached yet; try again in a moment")

    async def _stream(
        self,
        live: LiveSession,
        model: ServedModel,
        request: generation_pb2.GenerateRequest,
        context: Any,
    ) -> None:
        text, num_sent = model.codec.stream(), 0
        while True:
            await self._table.wait_for_change(live)
            if live.error is not None:
                raise live.error
            # Both before the write: tokens may come in while a client takes its time.
            fresh, is_finished = live.books.output_from(num_sent), live.books.is_finished
            if fresh:
                num_sent += len(fresh)
                await self._write(context, _delta(text.feed(fresh), fresh))
            if is_finished:
                complete = _complete(live.books, model, with_rounds=request.include_rounds)
                await self._write(context, complete)
                return

    async def _write(self, context: Any, response: generation_pb2.GenerateResponse) -> None:
        writing = asyncio.ensure_future(context.write(response))
        try:
            async with asyncio.timeout(self._stalled_client_s):
                await asyncio.shield(writing)
        except TimeoutError:
            raise _ClientStalled(writing) from None
        except asyncio.CancelledError:
            writing.cancel()
            raise


def _delta(text: str, token_ids: Sequence[int]) -> generation_pb2.GenerateResponse:
    return generation_pb2.GenerateResponse(
        delta=generation_pb2.Delta(text=text, token_ids=token_ids)
    )


def _complete(
    books: ClientSession, model: ServedModel, *, with_rounds: bool
) -> generation_pb2.GenerateResponse:
    admission = books.admission
    assert books.finish_reason is not None
    complete = generation_pb2.Complete(
        request_id=admission.session_id,
        finish_reason=FINISH_REASONS[books.finish_reason],
        usage=generation_pb2.Usage(
            prompt_tokens=books.prompt_len, completion_tokens=books.output_len
        ),
        seed=admission.params.seed,
        mode=MODES[admission.mode],
        figures=_figures(figures_of(books.rounds, books.growth, num_tokens=books.output_len)),
        exactness=model.exactness,
    )
    if with_rounds:
        complete.rounds.extend(encode_round(each) for each in books.rounds)
        complete.growth.CopyFrom(encode_spans(books.growth))
    return generation_pb2.GenerateResponse(complete=complete)


def _figures(figures: RoundFigures) -> generation_pb2.SpeculationFigures:
    return generation_pb2.SpeculationFigures(
        num_rounds=figures.num_rounds,
        num_proposed=figures.num_proposed,
        num_accepted=figures.num_accepted,
        num_tested=figures.num_tested,
        acceptance=figures.acceptance,
        tokens_per_round=figures.tokens_per_round,
        hit_rate=figures.hit_rate,
        num_hits=figures.num_hits,
        num_missed_absent=figures.misses[Lookup.MISS_ABSENT],
        num_missed_key=figures.misses[Lookup.MISS_KEY],
        num_missed_late=figures.misses[Lookup.MISS_LATE],
        verifier_busy=figures.busy,
        overlap=figures.overlap,
        useful_overlap=figures.useful_overlap,
        useful_share=figures.useful_share,
        verify_ms=figures.verify_ms,
        wait_ms=figures.wait_ms,
        accepted_at_depth=figures.accepted_at_depth,
    )
