"""The overlays, each built once."""

import pytest

from tests.k8s.manifests import K8S, OVERLAYS, Document, build


@pytest.fixture(params=OVERLAYS)
def documents(request: pytest.FixtureRequest) -> tuple[Document, ...]:
    """What each overlay amounts to, one after the other."""
    return build(K8S / "overlays" / request.param)
