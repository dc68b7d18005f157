"""Asking a server for its health, as Kubernetes does, and encrypted where it is.

The kubelet's own gRPC probe speaks no TLS; with this a probe can be a command in the container.
"""

from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ssd.core.errors import Unavailable
from ssd.wire.channels import channel_options
from ssd.wire.security import CLEAR, Security


def expect_serving(
    address: str, service: str = "", *, timeout_s: float, security: Security = CLEAR
) -> None:
    """Return if the server says that it serves; an empty `service` asks about the process.

    Raises:
        Unavailable: it does not, does not know the service, or does not answer in time.
    """
    what = service or "the process"
    request = health_pb2.HealthCheckRequest(service=service)
    with _channel(address, security) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # its stubs know no methods
        try:
            answer = stub.Check(request, timeout=timeout_s)
        except grpc.RpcError as error:
            code: Any = error
            raise Unavailable(
                f"{address} does not answer for {what}: {code.code().name}, {code.details()}"
            ) from error
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        status = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
        raise Unavailable(f"{address} says {status} for {what}")


def _channel(address: str, security: Security) -> grpc.Channel:
    options = channel_options(security)
    if not security.is_encrypted:
        return grpc.insecure_channel(address, options)
    return grpc.secure_channel(address, security.channel_credentials(), options)
