"""Write a pair in the formats of llama.cpp and OpenVINO; runs where their packages are.

python -m benchmarks.peers.export TARGET_FOLDER DRAFT_FOLDER OUT
"""

import sys
from pathlib import Path

from benchmarks.peers.gguf_export import export_gguf
from benchmarks.peers.openvino_export import export_openvino


def main() -> None:
    target, draft, out = (Path(each) for each in sys.argv[1:])
    for role, folder in (("target", target), ("draft", draft)):
        export_gguf(folder, out / f"{role}.gguf")
        export_openvino(folder, out / f"{role}-openvino")


if __name__ == "__main__":
    main()
