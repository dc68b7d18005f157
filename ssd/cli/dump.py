"""`ssd dump` and `ssd replay`: what happened to a session, and whether the core agrees."""

from pathlib import Path
from typing import Annotated

import typer

from ssd.cli.connection import connect
from ssd.cli.options import Address, one_sentence_errors
from ssd.core.errors import ConfigError
from ssd.wire.flight_file import unpack, write_private

DIFFERENCE_EXIT_CODE = 1


def dump(
    session: Annotated[str, typer.Argument(help="Request id, running or lately ended.")],
    address: Address = None,
    out: Annotated[Path, typer.Option(help="Folder that the files are written to.")] = Path(),
    *,
    with_tokens: Annotated[
        bool, typer.Option("--with-tokens", help="Include token ids, which are the text.")
    ] = False,
) -> None:
    """Write the last events of SESSION, one file for each verifier that ran it.

    Example: ssd dump 5f0c-0 --with-tokens
    """
    with one_sentence_errors():
        with connect(address) as client:
            records = client.dump(session, with_tokens=with_tokens)
        for number, record in enumerate(records):
            path = out / f"{_file_name(session)}-{number}.flight"
            try:
                out.mkdir(parents=True, exist_ok=True)
                write_private(path, record)
            except OSError as error:
                raise ConfigError(f"cannot write {path}: {error.strerror}") from error
            print(path)


def replay(
    file: Annotated[Path, typer.Argument(help="A file that `ssd dump` or a dying worker wrote.")],
) -> None:
    """Run the core over the events in FILE; exit status 1 at the first difference."""
    with one_sentence_errors():
        try:
            record = unpack(file.read_bytes())
        except OSError as error:
            raise ConfigError(f"cannot read {file}: {error.strerror}") from error
        replayed = record.replay()
    how = "replayed" if record.with_tokens else "checked by their lengths, for want of token ids,"
    print(
        f"session {record.session_id} of a {record.role} ({record.reason}): "
        f"{replayed.num_events} events {how} "
        f"in {len(record.segments)} segments, {replayed.num_tokens} tokens"
    )
    difference = replayed.difference
    if difference is None:
        print("no difference")
        return
    event = _event_at(record.segments[difference.segment].events, difference.event)
    print(f"difference in segment {difference.segment} at event {difference.event}: {event}")
    print(difference.what)
    raise typer.Exit(DIFFERENCE_EXIT_CODE)


def _event_at(events: list[object], number: int) -> str:
    return str(events[number]) if number < len(events) else "the checkpoint that follows"


def _file_name(session: str) -> str:
    """A request id is a client's choice; a file name is not."""
    return "".join(each if each.isalnum() or each in "-_" else "_" for each in session)[:80]
