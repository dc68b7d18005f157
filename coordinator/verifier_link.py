"""The coordinator's stream to one verifier: a seat for sessions while it is attached."""

import asyncio
from collections.abc import Iterable

import grpc.aio
import structlog

from coordinator.chat_template import ChatTemplate
from coordinator.served_model import ServedModel
from coordinator.session_table import SessionTable
from coordinator.text_codec import TextCodec
from ssd.core.credit import Credit
from ssd.core.errors import ProtocolError
from ssd.core.ledger import Ledger
from ssd.core.messages import Close, Commit, Finished, Open, Refused, Resume
from ssd.v1 import common_pb2, registry_pb2, verifier_pb2, verifier_pb2_grpc
from ssd.wire.channels import open_channel
from ssd.wire.checksums import CheckedChannel
from ssd.wire.dialed_stream import DialedStream, StreamKind, StreamTimeouts
from ssd.wire.envelopes import (
    AssignDrafters,
    VerifierOrder,
    VerifierReport,
    decode_verifier_report,
    encode_verifier_orders,
)
from ssd.wire.hello import PROTOCOL_VERSION, Capabilities

_BOUND = 65_536  # orders that may wait for one verifier
_RETRY_S = 0.5
_TOKENIZER_TIMEOUT_S = 10.0
_KIND: StreamKind[VerifierOrder, VerifierReport] = StreamKind(
    open_call=lambda channel: verifier_pb2_grpc.VerifierServiceStub(
        CheckedChannel(channel)
    ).Serve(),
    encode=encode_verifier_orders,
    decode=decode_verifier_report,
    bound=_BOUND,
)
log = structlog.get_logger()


class VerifierLink:
    """Dials one verifier for as long as it is registered; a `VerifierSeat` while attached.

    It belongs to one life of the verifier: a restarted one may have other weights, another
    tokenizer, and registers anew.
    """

    def __init__(
        self,
        worker: registry_pb2.Worker,
        table: SessionTable,
        timeouts: StreamTimeouts,
        *,
        coordinator_id: str,
    ) -> None:
        self.name = worker.name
        self.worker = worker
        self.fingerprint = ""
        self.is_draining = False
        self.credit: Credit | None = None
        self.instance_id = worker.hello.instance_id
        self.model: ServedModel | None = None
        self.reason = "connecting"
        self._table = table
        self._timeouts = timeouts
        self._drafters: tuple[str, ...] = ()
        self.stream: DialedStream[VerifierOrder, VerifierReport] = DialedStream(
            worker.address,
            _KIND,
            self,
            hello=common_pb2.Hello(protocol_version=PROTOCOL_VERSION, instance_id=coordinator_id),
            timeouts=timeouts,
        )
        self._task = asyncio.create_task(self._run())

    @property
    def is_attached(self) -> bool:
        return self.stream.is_attached

    @property
    def num_pings(self) -> int:
        return self.stream.num_pings

    def send(self, orders: Iterable[Open | Resume | Close]) -> None:
        self.stream.send(orders)

    def assign_drafters(self, addresses: Iterable[str]) -> None:
        """Tell the verifier which drafters to dial, now and whenever it attaches."""
        self._drafters = tuple(addresses)
        self.stream.send([AssignDrafters(addresses=self._drafters)])

    async def close(self) -> None:
        self._task.cancel()
        self._leave("closed")
        await asyncio.gather(self._task, return_exceptions=True)

    def attached(self, peer: Capabilities) -> None:
        assert self.model is not None, "the tokenizer is fetched before the stream is dialed"
        if peer.instance_id != self.worker.hello.instance_id:
            raise ProtocolError(f"another process answers at {self.worker.address}")
        self.fingerprint = peer.fingerprint
        self.model = ServedModel(peer, self.model.codec)
        self.reason = ""
        self.stream.send([AssignDrafters(addresses=self._drafters)])
        log.info("verifier attached", verifier=self.name, model=peer.model_name)
        self._table.seating.add(self)

    def received(self, report: VerifierReport) -> None:
        if isinstance(report, Commit | Finished | Refused):
            self._table.reports.take(report)
        elif isinstance(report, Ledger):
            self._table.reports.compare(self, report)

    def lost(self, reason: str) -> None:
        if not self.reason:
            log.warning("verifier lost", verifier=self.name, reason=reason)
        self._leave(reason)

    def _leave(self, reason: str) -> None:
        self.reason = reason
        self.credit = None
        self._table.seating.remove(self)

    async def _run(self) -> None:
        self.model = ServedModel(_NOBODY, await self._codec())
        await self.stream.run()

    async def _codec(self) -> TextCodec:
        """The verifier's tokenizer; a coordinator has no model files of its own."""
        while True:
            try:
                return await asyncio.to_thread(_codec_of, await self._fetch_tokenizer())
            except grpc.aio.AioRpcError as error:
                self.reason = f"no tokenizer: {error.code().name}: {error.details()}"
            except ProtocolError as error:
                self.reason = f"no tokenizer: {error}"
            log.warning("verifier without tokenizer", verifier=self.name, reason=self.reason)
            await asyncio.sleep(_RETRY_S)

    async def _fetch_tokenizer(self) -> verifier_pb2.GetTokenizerResponse:
        async with open_channel(self.worker.address, self._timeouts.security) as channel:
            stub = verifier_pb2_grpc.VerifierServiceStub(channel)
            request = verifier_pb2.GetTokenizerRequest()
            answer: verifier_pb2.GetTokenizerResponse = await stub.GetTokenizer(
                request, timeout=_TOKENIZER_TIMEOUT_S
            )
            return answer


def _codec_of(answer: verifier_pb2.GetTokenizerResponse) -> TextCodec:
    chat = ChatTemplate(
        answer.chat_template, bos_token=answer.bos_token, eos_token=answer.eos_token
    )
    return TextCodec(answer.tokenizer_json, chat)


_NOBODY = Capabilities("", "", "", "", "", 0, 0, (), "")
