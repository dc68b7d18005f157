"""Generates the Python stubs of protos/ssd/v1 into ssd/v1 (`make proto`)."""

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
PROTO_ROOT = CHECKOUT / "protos"


def generate(destination: Path) -> None:
    """Write the stubs below destination, where package `ssd.v1` is the folder ssd/v1."""
    protos = sorted(path.relative_to(PROTO_ROOT).as_posix() for path in PROTO_ROOT.rglob("*.proto"))
    if not protos:
        raise SystemExit(f"no .proto file below {PROTO_ROOT}")
    outputs = [f"--{kind}_out={destination}" for kind in ("python", "pyi", "grpc_python")]
    protoc = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO_ROOT}"]
    subprocess.run([*protoc, *outputs, *protos], check=True)


def stubs(root: Path) -> dict[str, str]:
    """The generated files below root: name within ssd/v1 -> text."""
    return {path.name: path.read_text("utf-8") for path in (root / "ssd" / "v1").glob("*_pb2*.py*")}


def main() -> None:
    for name in stubs(CHECKOUT):  # those of a removed .proto must go too
        (CHECKOUT / "ssd" / "v1" / name).unlink()
    generate(CHECKOUT)


if __name__ == "__main__":
    main()
