"""llama.cpp as its server runs it, through xllamacpp: plain and with a draft model.

How far it drafts is fixed when a server starts, so there is one server for each value that is asked
for. They map the same files, and those that are not asked do nothing.
"""

import json
import time
import urllib.request
from importlib.metadata import version
from typing import Any

import xllamacpp

from benchmarks.peers.engine import CHAINS, Answer, Drafting, Models, Task

_CONTEXT = 1024
_F32 = 0  # of ggml's types
_QUIET = -1


class LlamaCppEngine:
    """Servers over one pair of GGUF files."""

    choices = (*CHAINS, Drafting(8, 0.4), Drafting(8, 0.75))

    def __init__(self, models: Models) -> None:
        self.version = f"xllamacpp {version('xllamacpp')}"
        self._models = models
        self._servers: dict[Drafting | None, xllamacpp.Server] = {}

    def generate(self, task: Task) -> Answer:
        server = self._server(task.drafting)
        began = time.perf_counter()
        reply = _asked(server, task)
        total_s = time.perf_counter() - began
        decode_s = reply["timings"]["predicted_ms"] / 1e3
        return Answer(tuple(reply["tokens"]), total_s, decode_s, len(reply["tokens"]) - 1)

    def close(self) -> None:
        self._servers.clear()

    def _server(self, drafting: Drafting | None) -> xllamacpp.Server:
        if drafting not in self._servers:
            self._servers[drafting] = xllamacpp.Server(server_params(self._models, drafting))
        return self._servers[drafting]


def server_params(models: Models, drafting: Drafting | None) -> xllamacpp.CommonParams:
    params = xllamacpp.CommonParams()
    params.model.path = models.target
    params.n_ctx = _CONTEXT
    params.n_gpu_layers = 0
    params.cache_type_k = params.cache_type_v = _F32
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = models.threads
    params.cache_ram_mib = 0
    params.fit_params = False
    params.verbosity = _QUIET
    if drafting is not None:
        _add_draft(params.speculative, models, drafting)
    return params


def _add_draft(speculative: Any, models: Models, drafting: Drafting) -> None:
    speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
    draft = speculative.draft
    draft.mparams.path = models.draft
    draft.n_max = drafting.num_tokens
    draft.n_min = 0
    draft.p_min = drafting.min_probability
    draft.n_gpu_layers = 0
    draft.cache_type_k = draft.cache_type_v = _F32
    draft.cpuparams.n_threads = draft.cpuparams_batch.n_threads = models.threads


def _asked(server: xllamacpp.Server, task: Task) -> Any:
    """Over HTTP, because the direct call answers in text alone. The time of decoding is the
    server's own, so the way there and back is not in it."""
    request = urllib.request.Request(
        f"{server.listening_address}/completion",
        json.dumps(_request(task)).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)


def _request(task: Task) -> dict[str, Any]:
    """Ids go in as they are: llama.cpp adds a first token to texts only."""
    return {
        "prompt": list(task.prompt_ids),
        "n_predict": task.max_tokens,
        "temperature": 0.0,
        "samplers": ["temperature"],
        "cache_prompt": False,
        "return_tokens": True,
        "stream": False,
    }
