"""OpenVINO GenAI: continuous batching, plain and with a draft model."""

import time
from importlib.metadata import version
from typing import Any

import numpy as np
import openvino as ov
import openvino_genai as genai

from benchmarks.peers.engine import CHAINS, Answer, Drafting, Models, Task

# On processors with bf16 the runtime would compute in it, and keep keys and values in 8 bits.
EXACT = {
    "INFERENCE_PRECISION_HINT": "f32",
    "KV_CACHE_PRECISION": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
}
_CACHE_GB = 1


class OpenVinoEngine:
    """One pipeline without a draft and one with, each loaded when first asked for."""

    # With a probability given, the pipeline takes no number of tokens: it adapts its own.
    choices = (*CHAINS, Drafting(0, 0.4))

    def __init__(self, models: Models) -> None:
        self.version = f"openvino-genai {version('openvino-genai')}"
        self._models = models
        self._pipelines: dict[bool, Any] = {}

    def generate(self, task: Task) -> Answer:
        pipeline = self._pipeline(drafts=task.drafting is not None)
        config = genai.GenerationConfig(max_new_tokens=task.max_tokens, do_sample=False)
        if task.drafting is not None:
            config.num_assistant_tokens = task.drafting.num_tokens
            config.assistant_confidence_threshold = task.drafting.min_probability
        prompt = ov.Tensor(np.array([task.prompt_ids], dtype=np.int64))
        began = time.perf_counter()
        (result,) = pipeline.generate([prompt], [config])
        total_s = time.perf_counter() - began
        ids = tuple(int(each) for each in result.m_generation_ids[0])
        first_s = result.perf_metrics.get_ttft().mean / 1e3
        return Answer(ids, total_s, total_s - first_s, len(ids) - 1)

    def close(self) -> None:
        self._pipelines.clear()

    def _pipeline(self, *, drafts: bool) -> Any:
        if drafts not in self._pipelines:
            options: dict[str, Any] = {"INFERENCE_NUM_THREADS": self._models.threads, **EXACT}
            if drafts:
                options["draft_model"] = genai.draft_model(self._models.draft, "CPU", **options)
            scheduler = genai.SchedulerConfig()
            scheduler.cache_size = _CACHE_GB
            scheduler.enable_prefix_caching = False
            self._pipelines[drafts] = genai.ContinuousBatchingPipeline(
                self._models.target, scheduler, "CPU", options
            )
        return self._pipelines[drafts]
