"""Replays what the books made of a session's messages; see `ssd.core.replay`."""

from ssd.core.books_flight import (
    Booked,
    BooksAt,
    CutOff,
    Event,
    FoundComplete,
    Placed,
    SaidFinished,
)
from ssd.core.client_session import Admission, ClientSession, Reconciled
from ssd.core.errors import ProtocolError
from ssd.core.ids import SessionId
from ssd.core.messages import Commit, Finished
from ssd.core.mode import Mode
from ssd.core.replay import Mismatch, expect
from ssd.core.sampling_params import SamplingParams

_NAME = SessionId("replay")


class BooksPlayer:
    """The books of one session."""

    def __init__(self, checkpoint: BooksAt) -> None:
        admission = Admission(
            session_id=_NAME,
            prompt_token_ids=checkpoint.prompt_token_ids,
            max_len=checkpoint.max_len,
            params=SamplingParams(),
            stop_token_ids=checkpoint.stop_token_ids,
            mode=Mode.AR,
        )
        self._books = ClientSession.restored(
            admission,
            epoch=checkpoint.epoch,
            output_token_ids=checkpoint.output_token_ids,
            finish_reason=checkpoint.finish_reason,
        )

    def play(self, event: Event) -> int:
        """Apply one event; how many tokens it committed."""
        had = self._books.committed_len
        match event:
            case Placed():
                opening = self._books.open(above=event.above)
                expect("the epoch", event.epoch, opening.epoch)
                expect("the length", event.committed_len, self._books.committed_len)
            case Booked():
                expect("what was made of a commit", event.reconciled, self._book(event))
                expect("the length", event.committed_len, self._books.committed_len)
            case SaidFinished():
                message = Finished(_NAME, event.epoch, event.total_len, event.reason)
                expect("what was made of an end", event.reconciled, self._books.finish(message))
            case CutOff():
                self._books.end_output(event.num_tokens)
            case FoundComplete():
                expect("the end that shows", event.reason, self._books.settle_locally())
        return self._books.committed_len - had

    def _book(self, event: Booked) -> Reconciled | None:
        said = (event.epoch, event.base_len, event.base_key, event.token_ids)
        try:
            return self._books.commit(Commit(_NAME, *said))
        except ProtocolError:
            return None

    def meet(self, checkpoint: BooksAt) -> None:
        """The next segment of the same request goes on where this one ended."""
        if checkpoint.is_new:
            return
        books = self._books
        expect("the output", checkpoint.output_token_ids, books.output_token_ids)
        expect("the epoch", checkpoint.epoch, books.epoch)
        expect("the end", checkpoint.finish_reason, books.finish_reason)


class BooksMeasure:
    """What can be checked without token ids: lengths, epochs, and their order."""

    def __init__(self, checkpoint: BooksAt) -> None:
        self._prompt_len = len(checkpoint.prompt_token_ids)
        self._committed_len = self._prompt_len + len(checkpoint.output_token_ids)
        self._epoch = checkpoint.epoch
        self._max_len = checkpoint.max_len

    def play(self, event: Event) -> int:
        had = self._committed_len
        match event:
            case Placed():
                if event.epoch <= self._epoch:
                    raise Mismatch(f"epoch {event.epoch} after {self._epoch}")
                self._epoch = event.epoch
            case Booked(reconciled=Reconciled.CONTINUE):
                reach = event.base_len + len(event.token_ids)
                self._committed_len = max(reach, self._committed_len)
                expect("the length", event.committed_len, self._committed_len)
            case CutOff():
                self._committed_len = self._prompt_len + event.num_tokens
            case _:
                pass
        if self._committed_len > self._max_len:
            raise Mismatch(f"{self._committed_len} tokens of at most {self._max_len}")
        return self._committed_len - had

    def meet(self, checkpoint: BooksAt) -> None:
        if checkpoint.is_new:
            return
        length = self._prompt_len + len(checkpoint.output_token_ids)
        expect("the length at the checkpoint", length, self._committed_len)
