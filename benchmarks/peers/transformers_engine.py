"""transformers: `generate`, plain and with an assistant model."""

import time
from importlib.metadata import version
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.generation.streamers import BaseStreamer

from benchmarks.peers.engine import Answer, Drafting, Models, Task, decoded


class TransformersEngine:
    """Both models in this process; the number of drafted tokens stays as it is asked for."""

    choices = (Drafting(3), Drafting(5))

    def __init__(self, models: Models) -> None:
        torch.set_num_threads(models.threads)
        self.version = version("transformers")
        self._target, self._draft = (_load(path) for path in (models.target, models.draft))
        # The default heuristic would change the number.
        self._draft.generation_config.num_assistant_tokens_schedule = "constant"

    @torch.inference_mode()
    def generate(self, task: Task) -> Answer:
        assistant: dict[str, Any] = {}
        if task.drafting is not None:
            drafts = self._draft.generation_config
            drafts.num_assistant_tokens = task.drafting.num_tokens
            drafts.assistant_confidence_threshold = task.drafting.min_probability
            assistant["assistant_model"] = self._draft
        prompt = torch.tensor([task.prompt_ids])
        arrivals = _Arrivals()
        began = time.perf_counter()
        ids = self._target.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=task.max_tokens,
            do_sample=False,
            streamer=arrivals,
            **assistant,
        )
        total_s = time.perf_counter() - began
        return Answer(tuple(ids[0, prompt.shape[1] :].tolist()), total_s, *decoded(arrivals.seen))

    def close(self) -> None:
        del self._target, self._draft


class _Arrivals(BaseStreamer):
    """Notes when tokens come; the prompt comes first and does not count."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, int]] = []
        self._is_prompt = True

    def put(self, value: torch.Tensor) -> None:
        if not self._is_prompt:
            self.seen.append((time.perf_counter(), value.numel()))
        self._is_prompt = False

    def end(self) -> None:
        pass


def _load(path: str) -> Any:
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
