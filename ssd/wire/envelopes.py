"""The four stream messages: batches of orders and reports, in the order they happened.

One wire message per engine step and stream carries everything for all its sessions. Kinds that this
version does not know are skipped, so that versions can mix.
"""

from collections.abc import Iterable

from ssd.core.ledger import Ledger
from ssd.core.messages import Close, Commit, Finished, Grow, Need, Open, Rates, Refused, Resume
from ssd.v1 import common_pb2, drafter_pb2, verifier_pb2
from ssd.wire import codec

Hello = common_pb2.Hello
Ping = common_pb2.Ping
Pong = common_pb2.Pong
AssignDrafters = verifier_pb2.AssignDrafters

DrafterOrder = Hello | Open | Commit | Close | Rates | Ping
DrafterReport = Hello | Grow | Need | Refused | Pong | Ledger
VerifierOrder = Hello | Open | Resume | Close | AssignDrafters | Ping
VerifierReport = Hello | Commit | Finished | Refused | Pong | Ledger


def encode_drafter_orders(orders: Iterable[DrafterOrder]) -> drafter_pb2.SpeculateRequest:
    return drafter_pb2.SpeculateRequest(orders=[_drafter_order(each) for each in orders])


def encode_drafter_reports(reports: Iterable[DrafterReport]) -> drafter_pb2.SpeculateResponse:
    return drafter_pb2.SpeculateResponse(reports=[_drafter_report(each) for each in reports])


def encode_verifier_orders(orders: Iterable[VerifierOrder]) -> verifier_pb2.ServeRequest:
    return verifier_pb2.ServeRequest(orders=[_verifier_order(each) for each in orders])


def encode_verifier_reports(reports: Iterable[VerifierReport]) -> verifier_pb2.ServeResponse:
    return verifier_pb2.ServeResponse(reports=[_verifier_report(each) for each in reports])


def decode_drafter_order(message: drafter_pb2.DrafterOrder) -> DrafterOrder | None:
    """Raises ProtocolError for a malformed order; None for an unknown kind."""
    match message.WhichOneof("order"):
        case "hello":
            return message.hello
        case "open":
            return codec.decode_open(message.open)
        case "commit":
            return codec.decode_commit(message.commit)
        case "close":
            return codec.decode_close(message.close)
        case "rates":
            return codec.decode_rates(message.rates)
        case "ping":
            return message.ping
        case _:
            return None


def decode_drafter_report(message: drafter_pb2.DrafterReport) -> DrafterReport | None:
    """Raises ProtocolError for a malformed report; None for an unknown kind."""
    match message.WhichOneof("report"):
        case "hello":
            return message.hello
        case "grow":
            return codec.decode_grow(message.grow)
        case "need":
            return codec.decode_need(message.need)
        case "refused":
            return codec.decode_refused(message.refused)
        case "pong":
            return message.pong
        case "ledger":
            return codec.decode_ledger(message.ledger)
        case _:
            return None


def decode_verifier_order(message: verifier_pb2.VerifierOrder) -> VerifierOrder | None:
    """Raises ProtocolError for a malformed order; None for an unknown kind."""
    match message.WhichOneof("order"):
        case "hello":
            return message.hello
        case "open":
            return codec.decode_open(message.open)
        case "resume":
            return codec.decode_resume(message.resume)
        case "close":
            return codec.decode_close(message.close)
        case "assign_drafters":
            return message.assign_drafters
        case "ping":
            return message.ping
        case _:
            return None


def decode_verifier_report(message: verifier_pb2.VerifierReport) -> VerifierReport | None:
    """Raises ProtocolError for a malformed report; None for an unknown kind."""
    match message.WhichOneof("report"):
        case "hello":
            return message.hello
        case "commit":
            return codec.decode_commit(message.commit)
        case "finished":
            return codec.decode_finished(message.finished)
        case "refused":
            return codec.decode_refused(message.refused)
        case "pong":
            return message.pong
        case "ledger":
            return codec.decode_ledger(message.ledger)
        case _:
            return None


def _drafter_order(order: DrafterOrder) -> drafter_pb2.DrafterOrder:
    match order:
        case Open():
            return drafter_pb2.DrafterOrder(open=codec.encode_open(order))
        case Commit():
            return drafter_pb2.DrafterOrder(commit=codec.encode_commit(order))
        case Close():
            return drafter_pb2.DrafterOrder(close=codec.encode_close(order))
        case Rates():
            return drafter_pb2.DrafterOrder(rates=codec.encode_rates(order))
        case Hello():
            return drafter_pb2.DrafterOrder(hello=order)
        case Ping():
            return drafter_pb2.DrafterOrder(ping=order)


def _drafter_report(report: DrafterReport) -> drafter_pb2.DrafterReport:
    match report:
        case Grow():
            return drafter_pb2.DrafterReport(grow=codec.encode_grow(report))
        case Need():
            return drafter_pb2.DrafterReport(need=codec.encode_need(report))
        case Refused():
            return drafter_pb2.DrafterReport(refused=codec.encode_refused(report))
        case Hello():
            return drafter_pb2.DrafterReport(hello=report)
        case Pong():
            return drafter_pb2.DrafterReport(pong=report)
        case Ledger():
            return drafter_pb2.DrafterReport(ledger=codec.encode_ledger(report))


def _verifier_order(order: VerifierOrder) -> verifier_pb2.VerifierOrder:
    match order:
        case Open():
            return verifier_pb2.VerifierOrder(open=codec.encode_open(order))
        case Resume():
            return verifier_pb2.VerifierOrder(resume=codec.encode_resume(order))
        case Close():
            return verifier_pb2.VerifierOrder(close=codec.encode_close(order))
        case AssignDrafters():
            return verifier_pb2.VerifierOrder(assign_drafters=order)
        case Hello():
            return verifier_pb2.VerifierOrder(hello=order)
        case Ping():
            return verifier_pb2.VerifierOrder(ping=order)


def _verifier_report(report: VerifierReport) -> verifier_pb2.VerifierReport:
    match report:
        case Commit():
            return verifier_pb2.VerifierReport(commit=codec.encode_commit(report))
        case Finished():
            return verifier_pb2.VerifierReport(finished=codec.encode_finished(report))
        case Refused():
            return verifier_pb2.VerifierReport(refused=codec.encode_refused(report))
        case Hello():
            return verifier_pb2.VerifierReport(hello=report)
        case Pong():
            return verifier_pb2.VerifierReport(pong=report)
        case Ledger():
            return verifier_pb2.VerifierReport(ledger=codec.encode_ledger(report))
