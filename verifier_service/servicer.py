"""The verifier's end of `Serve`: decode, post to the engine, encode.

A stream is one coordinator, which owns the sessions it opened: when the stream ends they end here,
and the coordinator opens them again from its books, here or elsewhere.
"""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import structlog

from ssd.core.errors import ProtocolError
from ssd.core.ids import Epoch, SessionId
from ssd.core.messages import Close, Open, Refused
from ssd.core.verifier import Output, ToCoordinator, ToDrafter
from ssd.engine.engine_thread import EngineThread
from ssd.v1 import verifier_pb2, verifier_pb2_grpc
from ssd.wire.accepted_stream import run_accepted
from ssd.wire.envelopes import (
    AssignDrafters,
    Hello,
    Ping,
    Pong,
    VerifierOrder,
    VerifierReport,
    decode_verifier_order,
    encode_verifier_reports,
)
from ssd.wire.hello import Capabilities, check_version, encode_hello
from ssd.wire.outbox import Outbox, OutboxOverflow
from verifier_service.drafter_links import DrafterLinks
from verifier_service.machine import VerifierMachine

_BOUND = 65_536  # reports that may wait for a coordinator; commits are bounded by max_tokens anyway
log = structlog.get_logger()


class VerifierServicer(verifier_pb2_grpc.VerifierServiceServicer):
    """All streams of one verifier; everything but `deliver` runs on the event loop."""

    def __init__(self, machine: VerifierMachine, me: Capabilities, tokenizer_json: str) -> None:
        self.engine: EngineThread[Output]
        self.links: DrafterLinks
        self.num_dropped = 0
        self._machine = machine
        self._me = me
        self._tokenizer_json = tokenizer_json
        self._numbers = itertools.count(1)
        self._outboxes: dict[str, Outbox[VerifierReport]] = {}
        self._loop = asyncio.get_running_loop()

    def deliver(self, outputs: list[Output]) -> None:
        """Take the engine's outputs; called on its thread."""
        self._loop.call_soon_threadsafe(self._route, outputs)

    async def Serve(  # noqa: N802 (the name is the protocol's)
        self, requests: AsyncIterator[verifier_pb2.ServeRequest], context: Any
    ) -> None:
        owner = f"c{next(self._numbers)}"
        outbox: Outbox[VerifierReport] = Outbox(_BOUND)
        self._outboxes[owner] = outbox
        outbox.put([encode_hello(self._me)])
        try:
            await run_accepted(
                requests,
                context,
                outbox,
                take=lambda request: self._take_request(owner, request),
                encode=encode_verifier_reports,
            )
        finally:
            del self._outboxes[owner]
            self.engine.post(lambda: self._machine.core.owner_lost(owner))
            log.info("coordinator left", owner=owner)

    async def GetTokenizer(  # noqa: N802 (the name is the protocol's)
        self, request: verifier_pb2.GetTokenizerRequest, context: Any
    ) -> verifier_pb2.GetTokenizerResponse:
        return verifier_pb2.GetTokenizerResponse(tokenizer_json=self._tokenizer_json)

    def _take_request(self, owner: str, request: verifier_pb2.ServeRequest) -> None:
        for message in request.orders:
            try:
                order = decode_verifier_order(message)
            except ProtocolError as error:
                self.num_dropped += 1
                log.warning("order dropped", owner=owner, reason=str(error))
                self._refuse_open(owner, message, error)
                continue
            if order is not None:
                self._take(owner, order)

    def _refuse_open(
        self, owner: str, message: verifier_pb2.VerifierOrder, error: ProtocolError
    ) -> None:
        """Say so when a session cannot be opened: a client waits for it."""
        if message.HasField("open"):
            opening = message.open
            refusal = Refused(
                SessionId(opening.session_id),
                Epoch(opening.epoch),
                type(error).__name__,
                str(error),
            )
            self._outboxes[owner].put([refusal])

    def _take(self, owner: str, order: VerifierOrder) -> None:
        core = self._machine.core
        match order:
            case Open():
                self.engine.post(lambda: core.open(order, owner=owner))
            case Close():
                self.engine.post(lambda: core.close(order))
            case AssignDrafters():
                self.links.assign(order.addresses)
            case Ping():
                pong = Pong(
                    number=order.number,
                    num_steps=core.num_rounds,
                    num_sessions=len(core.sessions),
                )
                self._outboxes[owner].put([pong])
            case Hello():
                check_version(order)
                log.info("coordinator attached", owner=owner)

    def _route(self, outputs: list[Output]) -> None:
        """Drafters first: they can use the time. One wire message per round and stream."""
        self.links.send(output for output in outputs if isinstance(output, ToDrafter))
        by_owner: defaultdict[str, list[VerifierReport]] = defaultdict(list)
        for output in outputs:
            if isinstance(output, ToCoordinator):
                by_owner[output.owner].append(output.message)
        for owner, reports in by_owner.items():
            outbox = self._outboxes.get(owner)
            if outbox is None:
                continue
            try:
                outbox.put(reports)
            except OutboxOverflow:
                log.warning("coordinator reads too slowly", owner=owner)
                outbox.close()
