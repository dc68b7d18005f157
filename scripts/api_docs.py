"""Writes the reference in docs/api.md from the comments of the protos (`make proto`)."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from google.protobuf import descriptor_pb2

CHECKOUT = Path(__file__).resolve().parents[1]
PROTO_ROOT = CHECKOUT / "protos"
PAGE = CHECKOUT / "docs" / "api.md"
MARK = "<!-- From here on written by scripts/api_docs.py out of protos/ssd/v1. -->\n"
FILE = "ssd/v1/generation.proto"

Field = descriptor_pb2.FieldDescriptorProto
_NAMES = {
    Field.TYPE_DOUBLE: "double",
    Field.TYPE_FLOAT: "float",
    Field.TYPE_UINT32: "uint32",
    Field.TYPE_UINT64: "uint64",
    Field.TYPE_FIXED64: "fixed64",
    Field.TYPE_INT32: "int32",
    Field.TYPE_BOOL: "bool",
    Field.TYPE_STRING: "string",
    Field.TYPE_BYTES: "bytes",
}


def page(text: str) -> str:
    """The page with its reference written anew; what stands above the mark is kept."""
    head, mark, _ = text.partition(MARK)
    if not mark:
        raise SystemExit(f"{PAGE} has lost the line {MARK!r}")
    return head + mark + "\n" + "\n".join(_reference())


def _reference() -> Iterator[str]:
    files = {each.name: each for each in _descriptors().file}
    main = files[FILE]
    comments = {name: _comments(file) for name, file in files.items()}
    yield "## GenerationService\n"
    yield "| call | takes | returns | |\n|---|---|---|---|"
    for index, method in enumerate(main.service[0].method):
        kind = "stream of " if method.server_streaming else ""
        words = comments[FILE].get((6, 0, 2, index), "")
        takes, returns = _link(method.input_type), kind + _link(method.output_type)
        yield f"| `{method.name}` | {takes} | {returns} | {words} |"
    for name, path, message in _reachable(files, main):
        yield from _message(message, comments[name], path)
    for name, path, enum in _enums(files, main):
        yield f"\n### {enum.name}\n\n{comments[name].get(path, '')}\n"
        yield "| value | number | |\n|---|---|---|"
        for index, value in enumerate(enum.value):
            words = comments[name].get((*path, 2, index), "")
            yield f"| `{value.name}` | {value.number} | {words} |"
    yield ""


def _message(
    message: descriptor_pb2.DescriptorProto,
    comments: dict[tuple[int, ...], str],
    path: tuple[int, ...],
) -> Iterator[str]:
    yield f"\n### {message.name}\n"
    if words := comments.get(path):
        yield words + "\n"
    if not message.field:
        yield "No fields."
        return
    yield "| field | type | |\n|---|---|---|"
    maps = {f".ssd.v1.{message.name}.{each.name}": each for each in message.nested_type}
    for index, field in enumerate(message.field):
        words = comments.get((*path, 2, index), "")
        if field.HasField("oneof_index") and not field.proto3_optional:
            choice = message.oneof_decl[field.oneof_index].name
            words = f"One of `{choice}`. {words}".strip()
        yield f"| `{field.name}` | {_type(field, maps)} | {words} |"


def _type(field: Field, maps: dict[str, descriptor_pb2.DescriptorProto]) -> str:
    if field.type_name in maps:
        key, value = maps[field.type_name].field
        return f"map of {_type(key, {})} to {_type(value, {})}"
    name = _NAMES.get(field.type) or _link(field.type_name)
    if field.label == Field.LABEL_REPEATED:
        return f"repeated {name}"
    return f"optional {name}" if field.proto3_optional else name


def _link(type_name: str) -> str:
    name = type_name.rpartition(".")[2]
    return f"[{name}](#{name.lower()})"


Files = dict[str, descriptor_pb2.FileDescriptorProto]


def _reachable(
    files: Files, main: descriptor_pb2.FileDescriptorProto
) -> Iterator[tuple[str, tuple[int, ...], descriptor_pb2.DescriptorProto]]:
    """The messages of the service's calls and all that they hold, in the order of their files."""
    known = {
        f".ssd.v1.{message.name}": message
        for file in files.values()
        for message in file.message_type
    }
    queue = [
        name
        for method in main.service[0].method
        for name in (method.input_type, method.output_type)
    ]
    found = dict.fromkeys(queue)
    for name in queue:
        message = known[name]
        nested = [field for each in message.nested_type for field in each.field]
        for field in (*message.field, *nested):
            if field.type_name in known and field.type_name not in found:
                found[field.type_name] = None
                queue.append(field.type_name)
    for name in (FILE, *(each for each in files if each != FILE)):
        for index, message in enumerate(files[name].message_type):
            if f".ssd.v1.{message.name}" in found:
                yield name, (4, index), message


def _enums(
    files: Files, main: descriptor_pb2.FileDescriptorProto
) -> Iterator[tuple[str, tuple[int, ...], descriptor_pb2.EnumDescriptorProto]]:
    used = {field.type_name for _, _, message in _reachable(files, main) for field in message.field}
    for name, file in files.items():
        for index, enum in enumerate(file.enum_type):
            if f".ssd.v1.{enum.name}" in used:
                yield name, (5, index), enum


def _comments(file: descriptor_pb2.FileDescriptorProto) -> dict[tuple[int, ...], str]:
    return {
        tuple(each.path): " ".join(each.leading_comments.split())
        for each in file.source_code_info.location
        if each.leading_comments
    }


def _descriptors() -> descriptor_pb2.FileDescriptorSet:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "all.pb"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO_ROOT}", FILE]
        options = [f"--descriptor_set_out={out}", "--include_imports", "--include_source_info"]
        subprocess.run([*command, *options], check=True)
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
