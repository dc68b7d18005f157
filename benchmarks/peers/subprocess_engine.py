"""An engine that lives in a process of its own, with the packages of another environment."""

import json
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.peers.engine import Answer, Drafting, Models, Task

_CHECKOUT = Path(__file__).resolve().parents[2]
_END_S = 10.0


class SubprocessEngine:
    """Speaks to `benchmarks.peers.worker`, run by the given interpreter."""

    def __init__(self, name: str, models: Models, *, python: Path, log: Path) -> None:
        command = [str(python), "-m", "benchmarks.peers.worker", name]
        command += [models.target, models.draft, str(models.threads)]
        self._name, self._log = name, log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=_CHECKOUT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        first = self._read()
        self.version = str(first["version"])
        self.choices = tuple(Drafting(**each) for each in first["choices"])

    def generate(self, task: Task) -> Answer:
        assert self._process.stdin is not None, "it was asked for"
        self._process.stdin.write(json.dumps(asdict(task)) + "\n")
        self._process.stdin.flush()
        reply = self._read()
        return Answer(
            token_ids=tuple(reply["token_ids"]),
            total_s=reply["total_s"],
            decode_s=reply["decode_s"],
            num_decoded=reply["num_decoded"],
        )

    def close(self) -> None:
        self._process.communicate(timeout=_END_S)

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None, "it was asked for"
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._name} ended; {self._log} says why")
        said: dict[str, Any] = json.loads(line)
        return said
