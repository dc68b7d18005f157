"""A message that arrives otherwise than it was sent is not believed."""

from ssd.core.errors import ProtocolError
from ssd.v1 import common_pb2, verifier_pb2
from ssd.wire.checksums import check, seal

ORDER = verifier_pb2.VerifierOrder(close=common_pb2.Close(session_id="s", epoch=3))
PAYLOAD = verifier_pb2.ServeRequest(orders=[ORDER]).SerializeToString()


def test_a_sealed_message_reads_like_the_bare_one() -> None:
    message = verifier_pb2.ServeRequest.FromString(check(seal(PAYLOAD)))
    assert list(message.orders) == [ORDER]


def test_a_peer_without_checksums_is_believed() -> None:
    assert check(PAYLOAD) == PAYLOAD
    assert check(b"") == b""


def test_no_flipped_bit_changes_what_is_read() -> None:
    """Each is refused, or hit the checksum's own tag and left the payload alone."""
    sealed = seal(PAYLOAD)
    for bit in range(8 * len(sealed)):
        flipped = bytearray(sealed)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            assert check(bytes(flipped))[: len(PAYLOAD)] == PAYLOAD
        except ProtocolError:
            continue
