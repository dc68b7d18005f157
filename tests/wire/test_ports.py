"""Which address peers are told."""

import pytest

from ssd.wire.ports import WILDCARDS, reachable


def test_an_address_of_one_interface_is_told_as_it_is() -> None:
    assert reachable("127.0.0.1:5001") == "127.0.0.1:5001"


@pytest.mark.parametrize("wildcard", sorted(WILDCARDS))
def test_who_listens_everywhere_tells_an_address_that_can_be_dialed(wildcard: str) -> None:
    host, _, port = reachable(f"{wildcard}:5001").rpartition(":")
    assert host not in WILDCARDS
    assert port == "5001"
