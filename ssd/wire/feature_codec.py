"""Features of the target to protobuf and back."""

from ssd.core.errors import ProtocolError
from ssd.core.features import FeatureDtype, Features
from ssd.v1 import common_pb2


def encode_features(features: Features) -> common_pb2.Tensor:
    return common_pb2.Tensor(shape=features.shape, dtype=features.dtype, data=features.data)


def decode_features(message: common_pb2.Tensor) -> Features:
    """Raises ProtocolError when shape, dtype and bytes do not fit."""
    try:
        return Features(tuple(message.shape), FeatureDtype(message.dtype), message.data)
    except ValueError as error:
        raise ProtocolError(f"features: {error}") from error
