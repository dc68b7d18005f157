"""Who may import whom: imports point inwards, and heavy packages stay where they are needed.

services -> engine -> sampling -> core
services -> wire -> core
"""

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
SERVICES = ("coordinator", "drafter_service", "verifier_service")
ROOTS = ("ssd", *SERVICES)

TORCH = ("torch", "transformers")  # importing a tokenizer of transformers imports torch
CUDA_ONLY = ("triton", "flash_attn", "xformers", "pynvml", "cupy", "apex", "cuda")
GRPC = ("grpc", "grpc_status", "grpc_health", "grpc_reflection")
EFFECTS = ("asyncio", "os", "random", "secrets", "socket", "subprocess", "threading", "time")

INNER: Mapping[str, tuple[str, ...]] = {
    "ssd.core": (),
    "ssd.threads": (),
    "ssd.sampling": ("ssd.core",),
    "ssd.tokenizer": ("ssd.core",),
    "ssd.engine": ("ssd.sampling", "ssd.tokenizer", "ssd.threads", "ssd.core"),
    "ssd.v1": (),
    "ssd.wire": ("ssd.v1", "ssd.core"),
    "ssd.config": ("ssd.core",),
    "ssd.telemetry": ("ssd.core",),
    "ssd.report": ("ssd.client", "ssd.core"),
    "ssd.bench": ("ssd.engine", "ssd.sampling", "ssd.core"),
    "ssd.service_bench": (
        *("ssd.bench", "ssd.engine", "ssd.sampling", "ssd.client", "ssd.report", "ssd.core"),
    ),
    "ssd.simulate": ("ssd.core",),
    "ssd.measure": ("ssd.report", "ssd.client", "ssd.simulate", "ssd.core"),
    "ssd.advise": ("ssd.simulate", "ssd.tokenizer", "ssd.engine.checkpoint", "ssd.core"),
    "ssd.worker": (
        *("ssd.engine", "ssd.sampling", "ssd.tokenizer", "ssd.wire", "ssd.v1"),
        *("ssd.config", "ssd.telemetry", "ssd.threads", "ssd.core"),
    ),
}
"""What each shared package may import of ours besides itself."""

WITHOUT_TORCH = (
    *(
        "ssd.core",
        "ssd.simulate",
        "ssd.advise",
        "ssd.wire",
        "ssd.v1",
        "ssd.cluster",
        "ssd.cli",
        "ssd.client",
        "ssd.config",
        "ssd.threads",
    ),
    *("ssd.tokenizer", "ssd.telemetry", "coordinator"),
)


@dataclass(frozen=True, slots=True)
class Import:
    """`from a.b import c` is the name a.b.c: c may be a module."""

    name: str
    line: int
    is_late: bool
    """It stands in a function and happens when that is called."""

    def within(self, *packages: str) -> bool:
        return _is_within(self.name, packages)


@dataclass(frozen=True, slots=True)
class Module:
    """A source file of ours."""

    name: str
    path: Path
    imports: tuple[Import, ...]
    type_checking_lines: tuple[int, ...]

    def within(self, *packages: str) -> bool:
        return _is_within(self.name, packages)

    @property
    def is_actor(self) -> bool:
        return self.path.name == "actor.py"

    def at(self, line: int) -> str:
        return f"{self.path.relative_to(CHECKOUT)}:{line}"


@dataclass(frozen=True, slots=True)
class Rule:
    """No import in a module that `covers` accepts may be one that `forbids` accepts."""

    claim: str
    covers: Callable[[Module], bool]
    forbids: Callable[[Import], bool]


def _is_within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _points_inwards(package: str, inner: tuple[str, ...]) -> Rule:
    return Rule(
        f"{package} imports of ours only {' and '.join((package, *inner))}",
        covers=lambda module: module.within(package),
        forbids=lambda each: each.within(*ROOTS) and not each.within(package, *inner),
    )


def _stands_alone(service: str) -> Rule:
    others = tuple(each for each in SERVICES if each != service)
    return Rule(
        f"{service} imports no other service, no placement and no client",
        covers=lambda module: module.within(service),
        forbids=lambda each: each.within(*others, "ssd.cluster", "ssd.client"),
    )


RULES = [
    *(_points_inwards(package, inner) for package, inner in INNER.items()),
    *(_stands_alone(service) for service in SERVICES),
    Rule(
        "of a service only __main__ knows the command line",
        covers=lambda module: module.within(*SERVICES) and module.path.name != "__main__.py",
        forbids=lambda each: each.within("ssd.cli"),
    ),
    Rule(
        "ssd.core imports the standard library only",
        covers=lambda module: module.within("ssd.core"),
        forbids=lambda each: (
            each.name.partition(".")[0] not in sys.stdlib_module_names
            and not each.within("ssd.core")
        ),
    ),
    Rule(
        "ssd.core has no clock, no randomness and no input or output",
        covers=lambda module: module.within("ssd.core"),
        forbids=lambda each: each.within(*EFFECTS),
    ),
    Rule(
        "nothing imports what only a machine with CUDA has",
        covers=lambda module: True,
        forbids=lambda each: each.within(*CUDA_ONLY),
    ),
    Rule(
        "ray is for ssd.cluster and actor.py files",
        covers=lambda module: not (module.within("ssd.cluster") or module.is_actor),
        forbids=lambda each: each.within("ray"),
    ),
    Rule(
        "grpc is for ssd.wire, ssd.worker, ssd.client, ssd.v1 and the services",
        covers=lambda module: (
            not module.within(*("ssd.wire", "ssd.worker", "ssd.client", "ssd.v1"), *SERVICES)
        ),
        forbids=lambda each: each.within(*GRPC),
    ),
    Rule(
        "what the coordinator and the command line load imports no torch",
        covers=lambda module: module.within(*WITHOUT_TORCH) and not module.is_actor,
        forbids=lambda each: each.within(*TORCH),
    ),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.claim)
def test_imports_follow(rule: Rule) -> None:
    broken = [
        f"{module.at(each.line)} imports {each.name}"
        for module in _modules().values()
        if rule.covers(module)
        for each in module.imports
        if rule.forbids(each)
    ]
    assert not broken, f"{rule.claim}:\n" + "\n".join(broken)


def test_actors_import_torch_inside_methods_only() -> None:
    actors = [module for module in _modules().values() if module.is_actor]
    ways = [way for actor in actors if (way := _way_to_torch(actor.name))]
    assert not ways, "importing these loads torch:\n" + "\n".join(ways)


@pytest.mark.parametrize("package", WITHOUT_TORCH)
def test_nothing_it_imports_loads_torch(package: str) -> None:
    members = [module for module in _modules().values() if module.within(package)]
    ways = [way for member in members if (way := _way_to_torch(member.name))]
    assert not ways, "importing these loads torch:\n" + "\n".join(ways)


def test_nothing_is_imported_for_type_checkers_only() -> None:
    found = [
        module.at(line) for module in _modules().values() for line in module.type_checking_lines
    ]
    assert not found, "the class is in the wrong place:\n" + "\n".join(found)


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {module.path.parent for module in _modules().values()}
    missing = [str(folder) for folder in folders if not (folder / "__init__.py").exists()]
    assert not missing, f"no __init__.py in {missing}"


def test_the_coordinator_loads_no_torch_ray_or_transformers() -> None:
    names = [module.name for module in _modules().values() if module.within("coordinator")]
    program = (
        "import importlib, sys\n"
        f"for name in {names}:\n"
        "    importlib.import_module(name)\n"
        "    loaded = {'torch', 'ray', 'transformers'} & set(sys.modules)\n"
        "    if loaded: sys.exit(f'importing {name} loads {sorted(loaded)}')\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


@cache
def _modules() -> Mapping[str, Module]:
    paths = [path for root in ROOTS for path in sorted((CHECKOUT / root).rglob("*.py"))]
    modules = [_read(path) for path in paths]
    return {module.name: module for module in modules}


def _read(path: Path) -> Module:
    parts = path.relative_to(CHECKOUT).with_suffix("").parts
    package = parts[:-1]
    name = ".".join(package if parts[-1] == "__init__" else parts)
    tree = ast.parse(path.read_text("utf-8"), filename=str(path))
    nodes = list(ast.walk(tree))
    functions = [each for each in nodes if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    late = {id(node) for function in functions for node in ast.walk(function)}
    imports = [
        Import(imported, node.lineno, is_late=id(node) in late)
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for imported in _imported_names(node, package)
    ]
    type_checking = [
        each.lineno
        for each in nodes
        if (isinstance(each, ast.Name) and each.id == "TYPE_CHECKING")
        or (isinstance(each, ast.Attribute) and each.attr == "TYPE_CHECKING")
    ]
    return Module(name, path, tuple(imports), tuple(type_checking))


def _imported_names(node: ast.Import | ast.ImportFrom, package: tuple[str, ...]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    above = package[: len(package) - node.level + 1] if node.level else ()
    origin = ".".join((*above, node.module) if node.module else above)
    yield from (f"{origin}.{alias.name}" for alias in node.names)


def _way_to_torch(start: str) -> str | None:
    """The shortest chain of imports that loads torch when `start` is imported."""
    ways = {name: name for name in _loaded_by(start)}
    for name in (queue := list(ways)):
        module = _modules()[name]
        for each in module.imports:
            if each.is_late:
                continue
            way = f"{ways[name]} -> {each.name} ({module.at(each.line)})"
            if each.within(*TORCH):
                return way
            for loaded in _loaded_by(each.name):
                if loaded not in ways:
                    ways[loaded] = way
                    queue.append(loaded)
    return None


def _loaded_by(name: str) -> list[str]:
    """Our modules that importing a name runs: its packages from the outside in, and itself."""
    parts = name.split(".")
    prefixes = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
    return [prefix for prefix in prefixes if prefix in _modules()]
