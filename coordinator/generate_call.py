"""One call of Generate: its answers, streamed together to one client."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from coordinator.live_session import LiveSession
from coordinator.output_text import OutputText
from coordinator.owners import expect_ours
from coordinator.request_telemetry import RequestTelemetry
from coordinator.request_watch import RequestWatch
from coordinator.response_writer import ResponseWriter
from coordinator.responses import delta_response, prompt_response
from coordinator.served_model import ServedModel
from coordinator.session_table import SessionTable
from ssd.core.client_session import Admission
from ssd.core.errors import InvalidRequest, SsdError, UnknownSession


@dataclass(frozen=True, slots=True)
class Resumption:
    """A call that goes on with an earlier one: tokens its client has; whether it named a seed; and
    which of all coordinators it came to."""

    num_had: int
    has_seed: bool
    ordinal: int = 0
    peers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerateCall:
    """What the answers of a call share; `echo` sends the prompt before the first of them."""

    table: SessionTable
    telemetry: RequestTelemetry
    model: ServedModel
    writer: ResponseWriter
    echo: bool = False
    resumption: Resumption | None = None

    async def answer_all(
        self, admissions: Sequence[Admission], watch: RequestWatch
    ) -> list[LiveSession]:
        """Stream all answers; the first that fails ends the others.

        Each has its own turn, so those of two calls never wait for one another.
        """
        if len(admissions) == 1:
            return [await self._answer(0, admissions[0], watch)]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._watched_answer(index, each, watch))
                    for index, each in enumerate(admissions)
                ]
        except ExceptionGroup as several:
            raise several.exceptions[0] from several
        return [task.result() for task in tasks]

    async def stream(self, live: LiveSession, index: int) -> None:
        """Write an answer's text and ids as they come, until it is complete."""
        assert live.text is not None
        num_had = num_sent = self.resumption.num_had if self.resumption is not None else 0
        attendance = live.attendance
        while True:
            await self.table.wait_for_change(live, attendance)
            if live.error is not None:
                raise live.error
            # All before the write: tokens may come in while a client takes its time.
            fresh, piece = live.books.output_from(num_sent), live.text.take()
            logprobs = live.books.logprobs[num_sent:]
            is_finished = live.books.is_finished
            if is_finished and live.books.output_len < num_had:
                raise InvalidRequest(
                    f"resume_from is {num_had}, and the text has {live.books.output_len} tokens",
                    "resume_from",
                )
            if fresh or piece:
                if self.echo and index == num_sent == 0:
                    await self._write_prompt(live)
                num_sent += len(fresh)
                await self.writer.write(delta_response(index, piece, fresh, logprobs))
            if is_finished:
                return

    async def _watched_answer(
        self, index: int, admission: Admission, call: RequestWatch
    ) -> LiveSession:
        """Each of several answers has figures, spans and a log line of its own."""
        with self.telemetry.watched_answer(call) as watch:
            try:
                return await self._answer(index, admission, watch)
            except SsdError as error:
                watch.failed(error)
                raise

    async def _answer(self, index: int, admission: Admission, watch: RequestWatch) -> LiveSession:
        text = OutputText(
            self.model.codec,
            admission.stop_rules,
            min_tokens=admission.params.min_tokens,
            num_had=self.resumption.num_had if self.resumption is not None else 0,
        )
        async with self._session(admission, watch, text) as live:
            await self.stream(live, index)
            return live

    def _session(
        self, admission: Admission, watch: RequestWatch, text: OutputText
    ) -> AbstractAsyncContextManager[LiveSession]:
        """The session to go on with, or a new one.

        Raises:
            UnknownSession: it is not known any more, and cannot be made again.
            OwnedElsewhere: another coordinator has it.
        """
        resumption = self.resumption
        if resumption is not None:
            if self.table.is_known(admission.session_id):
                return self.table.resumed(admission, watch, text, has_seed=resumption.has_seed)
            expect_ours(admission.session_id, ordinal=resumption.ordinal, peers=resumption.peers)
            params = admission.params
            is_repeatable = params.is_greedy or (resumption.has_seed and params.is_coupled)
            if resumption.num_had and not is_repeatable:
                raise UnknownSession(
                    f"request {admission.session_id} is not known here any more, and without a "
                    "seed of the coupled rule its text cannot be made again"
                )
        return self.table.admitted(admission, self.model.target.fingerprint, watch, text)

    async def _write_prompt(self, live: LiveSession) -> None:
        """With special tokens: this is what the model was given, whatever it was made of."""
        token_ids = live.books.admission.prompt_token_ids
        text = self.model.codec.decode(token_ids, keep_special_tokens=True)
        await self.writer.write(prompt_response(text, token_ids, live.books.prompt_logprobs))
