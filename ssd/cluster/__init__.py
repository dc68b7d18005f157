"""Placement of workers on a Ray cluster, and the launcher that runs everything on one machine."""

from ssd.cluster.children import Child, start_child
from ssd.cluster.launcher import Launcher
from ssd.cluster.local_ray import LocalRay
from ssd.cluster.placement import place, remove
from ssd.cluster.workers import PlacedWorker, WorkerSpec

__all__ = [
    "Child",
    "Launcher",
    "LocalRay",
    "PlacedWorker",
    "WorkerSpec",
    "place",
    "remove",
    "start_child",
]
