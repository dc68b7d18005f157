"""Every message comes out of the wire as it went in; what cannot be read says so."""

import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from ssd.core.errors import ProtocolError
from ssd.core.ledger import Ledger
from ssd.core.messages import Close, Commit, Finished, Grow, Need, Open, Rates, Refused
from ssd.core.mode import Mode
from ssd.core.rounds import Lookup
from ssd.v1 import common_pb2, drafter_pb2, verifier_pb2
from ssd.wire import codec, round_codec
from ssd.wire.envelopes import (
    decode_drafter_order,
    decode_drafter_report,
    decode_verifier_order,
    decode_verifier_report,
    encode_drafter_orders,
    encode_drafter_reports,
    encode_verifier_orders,
    encode_verifier_reports,
)
from tests.wire import messages

FEW = settings(max_examples=60, deadline=None)

drafter_orders = st.lists(
    messages.openings | messages.commits | messages.closes | messages.rates, max_size=4
)
drafter_reports = st.lists(
    messages.grows | messages.needs | messages.refusals | messages.ledgers, max_size=4
)
verifier_orders = st.lists(messages.openings | messages.closes, max_size=4)
verifier_reports = st.lists(
    messages.commits | messages.finishes | messages.refusals | messages.ledgers, max_size=4
)


def over_the_wire(message: Message) -> Message:
    """Bytes and back."""
    return type(message).FromString(message.SerializeToString())


@FEW
@given(drafter_orders)
def test_orders_to_a_drafter_survive(orders: list[Open | Commit | Close | Rates]) -> None:
    request = over_the_wire(encode_drafter_orders(orders))
    assert isinstance(request, drafter_pb2.SpeculateRequest)
    assert [decode_drafter_order(each) for each in request.orders] == orders


@FEW
@given(drafter_reports)
def test_reports_of_a_drafter_survive(reports: list[Grow | Need | Refused | Ledger]) -> None:
    response = over_the_wire(encode_drafter_reports(reports))
    assert isinstance(response, drafter_pb2.SpeculateResponse)
    assert [decode_drafter_report(each) for each in response.reports] == reports


@FEW
@given(verifier_orders)
def test_orders_to_a_verifier_survive(orders: list[Open | Close]) -> None:
    request = over_the_wire(encode_verifier_orders(orders))
    assert isinstance(request, verifier_pb2.ServeRequest)
    assert [decode_verifier_order(each) for each in request.orders] == orders


@FEW
@given(verifier_reports)
def test_reports_of_a_verifier_survive(reports: list[Commit | Finished | Refused | Ledger]) -> None:
    response = over_the_wire(encode_verifier_reports(reports))
    assert isinstance(response, verifier_pb2.ServeResponse)
    assert [decode_verifier_report(each) for each in response.reports] == reports


def test_protocol_messages_pass_through() -> None:
    hello, ping = common_pb2.Hello(model_name="m"), common_pb2.Ping(number=3)
    pong = common_pb2.Pong(number=3, num_steps=9)
    assign = verifier_pb2.AssignDrafters(addresses=["a:1"])
    orders = encode_verifier_orders([hello, assign, ping]).orders
    assert [decode_verifier_order(each) for each in orders] == [hello, assign, ping]
    verifier_says = encode_verifier_reports([hello, pong]).reports
    assert [decode_verifier_report(each) for each in verifier_says] == [hello, pong]
    to_drafter = encode_drafter_orders([hello, ping]).orders
    assert [decode_drafter_order(each) for each in to_drafter] == [hello, ping]
    drafter_says = encode_drafter_reports([hello, pong]).reports
    assert [decode_drafter_report(each) for each in drafter_says] == [hello, pong]


def test_kinds_of_a_later_version_are_skipped() -> None:
    """Field 99 of a oneof that this version does not know."""
    later = b"\x9a\x06\x02hi"
    assert decode_drafter_order(drafter_pb2.DrafterOrder.FromString(later)) is None
    assert decode_drafter_report(drafter_pb2.DrafterReport.FromString(later)) is None
    assert decode_verifier_order(verifier_pb2.VerifierOrder.FromString(later)) is None
    assert decode_verifier_report(verifier_pb2.VerifierReport.FromString(later)) is None


def test_fields_of_a_later_version_are_ignored() -> None:
    close = common_pb2.Close(session_id="s", epoch=2).SerializeToString() + b"\x9a\x06\x02hi"
    decoded = codec.decode_close(common_pb2.Close.FromString(close))
    assert (decoded.session_id, decoded.epoch) == ("s", 2)


@pytest.mark.parametrize(
    "grow",
    [
        drafter_pb2.Grow(keys=[1, 2], positions=[1], num_candidates=[0], steps=[0]),
        drafter_pb2.Grow(keys=[1], positions=[1], num_candidates=[2], steps=[0], token_ids=[5]),
        drafter_pb2.Grow(
            keys=[1], positions=[1], num_candidates=[1], steps=[0], token_ids=[5], estimates=[]
        ),
        drafter_pb2.Grow(token_ids=[5], estimates=[0.5]),
        drafter_pb2.Grow(spans=common_pb2.GrowthSpans(steps=[1], base_lens=[1, 2])),
    ],
)
def test_uneven_columns_of_expansions_are_refused(grow: drafter_pb2.Grow) -> None:
    with pytest.raises(ProtocolError):
        codec.decode_grow(grow)


def test_what_this_version_does_not_know_is_refused() -> None:
    with pytest.raises(ProtocolError, match="mode 77"):
        codec.decode_mode(77)
    with pytest.raises(ProtocolError, match="reason 0"):
        codec.decode_finish_reason(0)
    with pytest.raises(ProtocolError, match="lookup"):
        round_codec.decode_round(common_pb2.RoundRecord())
    with pytest.raises(ProtocolError, match="session s: top_p"):
        codec.decode_open(common_pb2.Open(session_id="s", mode=common_pb2.MODE_AR))


def test_every_mode_reason_and_lookup_has_its_own_number() -> None:
    assert len(set(codec.MODES.values())) == len(Mode) == len(codec.MODES)
    assert len(set(round_codec.LOOKUPS.values())) == len(Lookup) == len(round_codec.LOOKUPS)
    assert 0 not in {*codec.MODES.values(), *round_codec.LOOKUPS.values()}
    assert 0 not in codec.FINISH_REASONS.values()


def test_a_ledger_of_uneven_columns_is_refused() -> None:
    uneven = common_pb2.Ledger(session_ids=["a", "b"], epochs=[1])
    with pytest.raises(ProtocolError, match="ledger differ in length"):
        codec.decode_ledger(uneven)
