"""`ssd demo`: TODO."""


def demo() -> None:
    """Show the service on the embedded models."""
