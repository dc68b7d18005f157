"""The placement group that holds the workers' devices, one bundle each.

Every function needs a connected driver.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import ray
from ray.util.placement_group import (
    PlacementGroup,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

from ssd.cluster.workers import Bundle
from ssd.core.errors import ConfigError, Unavailable

_GROUP_NAME = "ssd-workers"
_REMOVE_S = 10.0


def get_or_create_group(
    bundles: Sequence[Bundle], labels: Sequence[Mapping[str, str]], undo: ExitStack
) -> PlacementGroup:
    """The group with a bundle per worker, each on a node that bears its labels."""
    group = _find_group()
    if group is None:
        group = placement_group(
            list(bundles),
            name=_GROUP_NAME,
            lifetime="detached",
            bundle_label_selector=[dict(each) for each in labels],
        )
        undo.callback(_take_back, group)
    elif [dict(bundle) for bundle in group.bundle_specs] != list(bundles):
        raise ConfigError(
            f"this cluster holds workers placed on {group.bundle_specs}, and now {list(bundles)} "
            "is asked for: remove them first with `ssd place --remove`"
        )
    return group


def _take_back(group: PlacementGroup) -> None:
    """Without a connection Ray would start a cluster of its own here, to ask that."""
    if ray.is_initialized():
        remove_placement_group(group)


def _find_group() -> PlacementGroup | None:
    try:
        return get_placement_group(_GROUP_NAME)
    except ValueError:
        return None


def wait_for_group(group: PlacementGroup, deadline: float) -> None:
    if not group.wait(timeout_seconds=max(0.0, deadline - time.monotonic())):
        raise Unavailable("the devices exist, but others hold them; trying later may help")


def remove_group() -> None:
    group = _find_group()
    if group is None:
        return
    remove_placement_group(group)
    give_up = time.monotonic() + _REMOVE_S
    while placement_group_table(group)["state"] != "REMOVED":
        if time.monotonic() > give_up:
            raise Unavailable(f"Ray has not freed the devices within {_REMOVE_S:g} s")
        time.sleep(0.05)


def core_indices(group: PlacementGroup, bundles: Sequence[Bundle]) -> dict[int, int]:
    """Bundle index -> core index, for bundles without a GPU; counted on each node from zero."""
    cores: dict[int, int] = {}
    taken: dict[str, int] = defaultdict(int)
    for index, node_id in sorted(placement_group_table(group)["bundles_to_node_id"].items()):
        if "GPU" not in bundles[index]:
            cores[index] = taken[node_id]
            taken[node_id] += 1
    return cores
