"""Bounds of the histograms, in seconds."""

FORWARD_SECONDS = (
    *(0.00025, 0.0005, 0.001, 0.002, 0.003, 0.004, 0.006, 0.008, 0.012, 0.016),
    *(0.025, 0.04, 0.06, 0.1, 0.2, 0.5, 1.0),
)
"""A forward: below a millisecond for small drafts, tens of milliseconds for large targets."""

TOKEN_SECONDS = (
    *(0.0005, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.006, 0.008, 0.012, 0.016),
    *(0.025, 0.04, 0.06, 0.1, 0.2, 0.5, 1.0),
)
"""Between two tokens of one request."""

REQUEST_SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.0),
    *(2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0),
)
"""Queueing, the first token, a whole request."""

SHARES = tuple(tenth / 10 for tenth in range(1, 11))
"""Ratios from 0 to 1."""
