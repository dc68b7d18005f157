"""Fixtures of the served texts: the cluster of tests/services, and one thread for tiny tensors."""

import torch

from tests.services.conftest import cluster

__all__ = ["cluster"]

# Threads that wait for one another cost these models ten times what they compute.
torch.set_num_threads(1)
