"""One engine in its own process: a line of JSON in for each task, a line out for each answer.

    python -m benchmarks.peers.worker NAME TARGET DRAFT THREADS

The first line out says the engine's version and the drafts worth trying. Whatever the engine itself
prints goes to standard error.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from typing import Any, TextIO

from benchmarks.peers.engine import Drafting, Engine, Models, Task

ENGINES = {
    "transformers": "transformers_engine:TransformersEngine",
    "llama.cpp": "llamacpp_engine:LlamaCppEngine",
    "openvino": "openvino_engine:OpenVinoEngine",
}


def main() -> None:
    name, target, draft, threads = sys.argv[1:]
    replies = _replies()
    engine = _engine_class(name)(Models(target, draft, int(threads)))
    try:
        choices = [asdict(each) for each in engine.choices]
        _say(replies, {"version": engine.version, "choices": choices})
        for line in sys.stdin:
            _say(replies, asdict(engine.generate(_task(json.loads(line)))))
    finally:
        engine.close()


def _task(asked: dict[str, Any]) -> Task:
    drafting = None if asked["drafting"] is None else Drafting(**asked["drafting"])
    return Task(tuple(asked["prompt_ids"]), asked["max_tokens"], drafting)


def _replies() -> TextIO:
    """Our own standard output; everybody else's is standard error from here on."""
    kept = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(kept, "w")


def _say(replies: TextIO, what: dict[str, object]) -> None:
    replies.write(json.dumps(what) + "\n")
    replies.flush()


def _engine_class(name: str) -> Callable[[Models], Engine]:
    module, class_name = ENGINES[name].split(":")
    found: Callable[[Models], Engine] = getattr(
        import_module(f"benchmarks.peers.{module}"), class_name
    )
    return found


if __name__ == "__main__":
    main()
