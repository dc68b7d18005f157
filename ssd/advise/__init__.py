"""Does speculation pay, before anything is loaded: `ssd advise`."""

from ssd.advise.advice import Advice, Drafted, Question, Reason, advise
from ssd.advise.devices import DEVICES, Device
from ssd.advise.expectation import Workload, expected_acceptance, expected_tokens
from ssd.advise.families import FAMILIES, shape_of
from ssd.advise.model_shape import ModelShape
from ssd.advise.placement import BYTES, PlacedModel
from ssd.advise.source import Described, describe
from ssd.advise.speed import Speed

__all__ = [
    "BYTES",
    "DEVICES",
    "FAMILIES",
    "Advice",
    "Described",
    "Device",
    "Drafted",
    "ModelShape",
    "PlacedModel",
    "Question",
    "Reason",
    "Speed",
    "Workload",
    "advise",
    "describe",
    "expected_acceptance",
    "expected_tokens",
    "shape_of",
]
