"""`GenerationService`: what clients call.

A token is in the books before any client sees it. A client that takes nothing for a while is
cancelled; one that is slow holds back nobody, because its tokens wait in its own books.
"""

import asyncio
from typing import Any

import grpc
import structlog

from coordinator.admission import (
    RequestDefaults,
    admit,
    chat_token_ids,
    refuse_unknown_fields,
    text_token_ids,
)
from coordinator.api_keys import ApiKeys, KeyOwner
from coordinator.generate_call import GenerateCall, Resumption
from coordinator.registry import Registry
from coordinator.request_telemetry import RequestTelemetry
from coordinator.request_watch import RequestWatch
from coordinator.response_writer import ClientStalled, ResponseWriter
from coordinator.responses import complete_response
from coordinator.sampling_request import check_vocabulary
from coordinator.served_model import ServedModel
from coordinator.session_table import SessionTable
from ssd.core.errors import InvalidRequest, SsdError, Unavailable
from ssd.core.mode import Mode
from ssd.core.session_names import request_id_of, session_id_of
from ssd.v1 import generation_pb2, generation_pb2_grpc
from ssd.wire.codec import MODES
from ssd.wire.sampling_codec import RULES
from ssd.wire.status import abort

log = structlog.get_logger()


class GenerationServicer(generation_pb2_grpc.GenerationServiceServicer):
    """Streams committed text to clients."""

    def __init__(
        self,
        table: SessionTable,
        registry: Registry,
        defaults: RequestDefaults,
        *,
        telemetry: RequestTelemetry,
        keys: ApiKeys,
        stalled_client_s: float,
    ) -> None:
        self._table = table
        self._registry = registry
        self._defaults = defaults
        self._telemetry = telemetry
        self._keys = keys
        self._stalled_client_s = stalled_client_s

    async def Generate(  # noqa: N802 (the name is the protocol's)
        self, request: generation_pb2.GenerateRequest, context: Any
    ) -> None:
        with self._telemetry.watched(dict(context.invocation_metadata() or ())) as watch:
            await self._generate(request, context, watch)

    async def _generate(
        self, request: generation_pb2.GenerateRequest, context: Any, watch: RequestWatch
    ) -> None:
        writer = ResponseWriter(context, stalled_client_s=self._stalled_client_s)
        try:
            owner = self._owner(context)
            model = self._model()
            watch.model_name, watch.prompt = model.target.model_name, request.text
            if request.WhichOneof("prompt") == "chat":
                watch.operation = "chat"
            # Not on the event loop: a long text takes the tokenizer long.
            admissions = await asyncio.to_thread(admit, request, model, self._defaults, owner)
            call = GenerateCall(
                self._table,
                self._telemetry,
                model,
                writer,
                echo=_wants_prompt(request),
                resumption=_resumption(request, self._defaults, num_answers=len(admissions)),
            )
            with self._keys.running(owner, len(admissions)):
                answers = await call.answer_all(admissions, watch)
                request_id = request_id_of(admissions[0].session_id, owner.name)
                await writer.write(
                    complete_response(
                        request_id, answers, model, with_rounds=request.include_rounds
                    )
                )
        except SsdError as error:
            watch.failed(error)
            await abort(context, error)
        except ClientStalled as stalled:
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
            owner = self._owner(context)
            self._table.cancel(session_id_of(owner.name, request.request_id))
        except SsdError as error:
            await abort(context, error)
        for index in range(1, self._defaults.max_choices):
            another = session_id_of(owner.name, request.request_id, index)
            if another in self._table.sessions:
                self._table.cancel(another)
        return generation_pb2.CancelResponse()

    async def GetModelInfo(  # noqa: N802 (the name is the protocol's)
        self, request: generation_pb2.GetModelInfoRequest, context: Any
    ) -> generation_pb2.GetModelInfoResponse:
        try:
            self._owner(context)
            model = self._model()
        except SsdError as error:
            await abort(context, error)
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
            default_rule=RULES[self._defaults.rule],
        )

    async def Tokenize(  # noqa: N802 (the name is the protocol's)
        self, request: generation_pb2.TokenizeRequest, context: Any
    ) -> generation_pb2.TokenizeResponse:
        try:
            self._owner(context)
            model = self._model()
            refuse_unknown_fields(request)
            if request.WhichOneof("input") == "chat":
                token_ids = await asyncio.to_thread(chat_token_ids, request.chat, model)
            else:
                token_ids = await asyncio.to_thread(text_token_ids, request.text, model)
        except SsdError as error:
            await abort(context, error)
        return generation_pb2.TokenizeResponse(
            token_ids=token_ids, context_len=model.target.context_len
        )

    async def Detokenize(  # noqa: N802 (the name is the protocol's)
        self, request: generation_pb2.DetokenizeRequest, context: Any
    ) -> generation_pb2.DetokenizeResponse:
        try:
            self._owner(context)
            model = self._model()
            refuse_unknown_fields(request)
            check_vocabulary("token_ids", request.token_ids, model)
            text = await asyncio.to_thread(
                model.codec.decode,
                list(request.token_ids),
                keep_special_tokens=request.keep_special_tokens,
            )
        except SsdError as error:
            await abort(context, error)
        return generation_pb2.DetokenizeResponse(text=text)

    def _owner(self, context: Any) -> KeyOwner:
        """Raises Unauthenticated without a key that is known."""
        return self._keys.owner_of(context.invocation_metadata() or ())

    def _model(self) -> ServedModel:
        """Raises Unavailable while no verifier is attached."""
        for link in self._registry.links.values():
            if link.is_attached and link.model is not None and not link.is_draining:
                return link.model
        raise Unavailable("no verifier is attached yet; try again in a moment")


def _wants_prompt(request: generation_pb2.GenerateRequest) -> bool:
    return request.echo or request.HasField("prompt_logprobs")


def _resumption(
    request: generation_pb2.GenerateRequest, defaults: RequestDefaults, *, num_answers: int
) -> Resumption | None:
    """Raises InvalidRequest for what cannot be gone on with."""
    if not request.HasField("resume_from"):
        return None
    if num_answers > 1:
        raise InvalidRequest("resume_from goes with a single answer, not with n", "resume_from")
    if not request.HasField("request_id"):
        raise InvalidRequest("resume_from needs the request_id to go on with", "resume_from")
    return Resumption(
        request.resume_from, request.HasField("seed"), defaults.ordinal, defaults.peers
    )
