"""Distinct types for values that would otherwise all be `str` and `int`."""

from typing import NewType

SessionId = NewType("SessionId", str)
Epoch = NewType("Epoch", int)
"""Counts the times a session was opened on a verifier; minted by the coordinator alone."""

PrefixKey = NewType("PrefixKey", int)
"""A key of `ssd.core.keys`: names a prefix of token ids, in [0, 2^61 - 1)."""

KvId = NewType("KvId", str)
"""Names one text's KV in a runner. Every opening of a session has its own."""

SlotSet = NewType("SlotSet", int)
"""A set of KV slots above a session's text, as an integer: bit 0 is the first of them."""
