"""The inner loops of products of few rows, compiled for this CPU when first asked for.

    weights  [panels, in, columns]       a panel is two vectors of outputs, read from end to end
    rows     [rows, in]                  up to `max_rows` of them keep their sums in registers
    sums     [rows, panels * columns]    all float32

    for panel in the panels of this thread:
        for tile in panel:                           # 256 inputs
            for some in rows:                        # as many as their sums leave registers for
                for k in tile:
                    prefetch(next tile[k])           # or, in turns, a share of it
                    sums[some] += rows[some, k] * tile[k]

What a few rows cost is reading the weights, and a library's product reads and multiplies by turns.
This one sends for the next tile while it multiplies one: with AVX-512 a dozen rows take little
longer than one (docs/decisions/0014-a-product-of-our-own.md). A row's products are added up in the
same order whatever the other rows are, so its result does not depend on company.

The gated loops end with `silu(gate) * up`: a panel's first vector belongs to the gate and its
second to `up`, so what they say of a row never leaves the registers.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch  # noqa: F401 (its OpenMP is the one we want)
from llvmlite import binding, ir

_CACHE_LINE = 16  # floats
# Inputs of a tile: of one panel, what stays in the first cache from some rows to the next ones. And
# sums over many inputs are sums of sums, which round less. Gated, a tile is the whole panel: of a
# wide model it stays in the second cache.
_DEPTH = 256

_INDEX = ir.IntType(64)
_FLAG = ir.IntType(32)
_FLOAT = ir.FloatType()
_FLOATS = _FLOAT.as_pointer()
_VOID = ir.VoidType()

# Of exp(r), from r to the seventh down to 1.
_EXP = (
    1.9875691500e-4,
    1.3981999507e-3,
    8.3334519073e-3,
    4.1665795894e-2,
    1.6666665459e-1,
    5.0000001201e-1,
    1.0,
    1.0,
)

_OPENMP = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")


def compile_loops(*, lanes: int, max_rows: int, is_gated: bool, cpu: str = "") -> Any:
    """`loops(rows, weights, sums, num_rows, rows_at_a_time, num_in, num_panels, num_threads)`, for
    vectors of `lanes` floats; the first three are addresses. It lets go of Python's lock; for no
    threads it starts as many as torch may. None where torch's are not those of GNU's OpenMP.
    """
    symbols = _openmp_symbols()
    if symbols is None:
        return None
    for name, address in symbols.items():
        binding.add_symbol(name, address)
    engine = _compile(str(_Writer(lanes, max_rows, is_gated=is_gated).module()), cpu)
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 5)
    loops = signature(engine.get_function_address("product"))
    loops.code = engine  # type: ignore[attr-defined]  # lives as long as they do
    return loops


def _openmp_symbols() -> dict[str, int] | None:
    """Where torch's own threads are started from: two sets of them would be in each other's way."""
    process = ctypes.CDLL(None)
    try:
        entries = {name: getattr(process, name) for name in _OPENMP}
    except AttributeError:
        return None
    return {name: ctypes.cast(entry, ctypes.c_void_p).value or 0 for name, entry in entries.items()}


def _compile(text: str, cpu: str) -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module = binding.parse_assembly(text)
    module.verify()
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=cpu or binding.get_host_cpu_name(),
        features="" if cpu else binding.get_host_cpu_features().flatten(),
        opt=3,
    )
    # The loops below are unrolled as far as there are registers.
    options = binding.create_pipeline_tuning_options(speed_level=2)
    options.loop_unrolling = False
    passes = binding.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


class _Writer:
    """Writes one kind of loops for one length of vectors."""

    def __init__(self, lanes: int, max_rows: int, *, is_gated: bool) -> None:
        self._lanes = lanes
        self._is_gated = is_gated
        self._vector = ir.VectorType(_FLOAT, lanes)
        self._max_rows = max_rows
        self._module = ir.Module()
        self._fma = self._intrinsic("fma", num_arguments=3)
        self._prefetch = ir.Function(
            self._module, ir.FunctionType(_VOID, [_FLOATS, _FLAG, _FLAG, _FLAG]), "llvm.prefetch.p0"
        )

    def module(self) -> ir.Module:
        part = self._part([self._tile(num_rows) for num_rows in range(1, self._max_rows + 1)])
        self._product(part)
        return self._module

    def _tile(self, num_rows: int) -> ir.Function:
        """Some rows times one tile; the panel's first one stores its sums, others add to them.
        Gated, the first is the only one."""
        parameters = [_FLOATS] * 4 + [_INDEX] * 4 + [ir.IntType(1)]
        kind = ir.FunctionType(_VOID, parameters)
        function = ir.Function(self._module, kind, f"tile_{num_rows}")
        function.linkage = "internal"
        rows, weights, sums, next_tile, step, depth, row_stride, sum_stride, is_first = (
            function.args
        )
        entry, loop, end = (function.append_basic_block(name) for name in ("entry", "loop", "end"))

        build = ir.IRBuilder(entry)
        starts = [build.gep(rows, [build.mul(row_stride, _index(row))]) for row in range(num_rows)]
        build.branch(loop)

        build = ir.IRBuilder(loop)
        k = build.phi(_INDEX)
        k.add_incoming(_index(0), entry)
        running = [[build.phi(self._vector) for _ in range(2)] for _ in starts]
        self._send_for(build, build.gep(next_tile, [build.mul(k, step)]))
        pair = self._load_weights(build, weights, k)
        summed = []
        for start, before in zip(starts, running, strict=True):
            value = self._spread(build, build.load(build.gep(start, [k])))
            summed.append(
                [build.call(self._fma, [value, *each]) for each in zip(pair, before, strict=True)]
            )
        for before, after in zip(running, summed, strict=True):
            for half in range(2):
                before[half].add_incoming(self._all(0.0), entry)
                before[half].add_incoming(after[half], loop)
        following = build.add(k, _index(1))
        k.add_incoming(following, loop)
        build.cbranch(build.icmp_signed("<", following, depth), loop, end)

        build = ir.IRBuilder(end)
        for row, after in enumerate(summed):
            start = build.mul(sum_stride, _index(row))
            if self._is_gated:
                place = build.bitcast(build.gep(sums, [start]), self._vector.as_pointer())
                build.store(build.fmul(self._silu(build, after[0]), after[1]), place, align=4)
                continue
            for half in range(2):
                offset = build.add(start, _index(half * self._lanes))
                place = build.bitcast(build.gep(sums, [offset]), self._vector.as_pointer())
                before = build.load(place, align=4)
                total = build.select(is_first, after[half], build.fadd(before, after[half]))
                build.store(total, place, align=4)
        build.ret_void()
        return function

    def _silu(self, build: ir.IRBuilder, x: Any) -> Any:
        """x / (1 + exp(-x))"""
        return build.fdiv(x, build.fadd(self._all(1.0), self._exp(build, build.fneg(x))))

    def _exp(self, build: ir.IRBuilder, x: Any) -> Any:
        """exp(x) = 2^n exp(r) with |r| <= ln(2) / 2 and a polynomial for exp(r), as in Cephes'
        expf: 2 units in the last place."""
        x = build.call(
            self._intrinsic("minnum", num_arguments=2), [x, self._all(89.0)]
        )  # from 88.4 on infinite
        x = build.call(self._intrinsic("maxnum", num_arguments=2), [x, self._all(-87.0)])
        scaled = build.fmul(x, self._all(1.44269504088896341))
        n = build.call(self._intrinsic("rint", num_arguments=1), [scaled])
        r = build.call(self._fma, [n, self._all(-0.693359375), x])  # ln(2) in two parts
        r = build.call(self._fma, [n, self._all(2.12194440e-4), r])
        power = self._all(_EXP[0])
        for coefficient in _EXP[1:]:
            power = build.call(self._fma, [power, r, self._all(coefficient)])
        words = ir.VectorType(_FLAG, self._lanes)
        shifted = build.shl(
            build.add(build.fptosi(n, words), ir.Constant(words, [127] * self._lanes)),
            ir.Constant(words, [23] * self._lanes),
        )
        return build.fmul(power, build.bitcast(shifted, self._vector))

    def _all(self, value: float) -> ir.Constant:
        return ir.Constant(self._vector, [value] * self._lanes)

    def _intrinsic(self, name: str, *, num_arguments: int) -> ir.Function:
        full_name = f"llvm.{name}.v{self._lanes}f32"
        kind = ir.FunctionType(self._vector, [self._vector] * num_arguments)
        known: ir.Function | None = self._module.globals.get(full_name)
        return known or ir.Function(self._module, kind, full_name)

    def _send_for(self, build: ir.IRBuilder, start: Any) -> None:
        for line in range(0, 2 * self._lanes, _CACHE_LINE):
            flags = (ir.Constant(_FLAG, flag) for flag in (0, 3, 1))  # to read, all caches, data
            build.call(self._prefetch, [build.gep(start, [_index(line)]), *flags])

    def _load_weights(self, build: ir.IRBuilder, weights: Any, k: Any) -> list[Any]:
        """Two vectors, those of one input."""
        start = build.mul(k, _index(2 * self._lanes))
        places = [
            build.gep(weights, [build.add(start, _index(half * self._lanes))]) for half in range(2)
        ]
        return [
            build.load(build.bitcast(place, self._vector.as_pointer()), align=4) for place in places
        ]

    def _spread(self, build: ir.IRBuilder, value: Any) -> Any:
        nothing = ir.Constant(self._vector, ir.Undefined)
        first = build.insert_element(nothing, value, ir.Constant(_FLAG, 0))
        everywhere = ir.Constant(ir.VectorType(_FLAG, self._lanes), [0] * self._lanes)
        return build.shuffle_vector(first, nothing, everywhere)

    def _part(self, tiles: list[ir.Function]) -> ir.Function:
        """One thread's panels, of a task as `compile_loops` has it."""
        function = ir.Function(self._module, ir.FunctionType(_VOID, [_INDEX.as_pointer()]), "part")
        function.linkage = "internal"
        build = ir.IRBuilder(function.append_basic_block("entry"))
        words = [build.load(build.gep(function.args[0], [_index(word)])) for word in range(7)]
        rows, weights, sums = (build.inttoptr(word, _FLOATS) for word in words[:3])
        num_rows, at_a_time, num_in, num_panels = words[3:]

        columns = 2 * self._lanes
        num_sums = self._lanes if self._is_gated else columns  # of a row and panel
        sum_stride = build.mul(num_panels, _index(num_sums))
        tile_depth = num_in if self._is_gated else _index(_DEPTH)
        thread, num_threads = (
            build.sext(build.call(self._outside(name, _FLAG, []), []), _INDEX)
            for name in _OPENMP[1:]
        )
        first, end = (
            build.sdiv(build.mul(num_panels, which), num_threads)
            for which in (thread, build.add(thread, _index(1)))
        )
        # Each turn of some rows sends for its share of the next tile; with hundreds of rows, which
        # arithmetic bounds, for next to nothing.
        step = build.sdiv(build.mul(_index(columns), at_a_time), num_rows)
        with (
            _loop(build, first, end, _index(1)) as panel,
            _loop(build, _index(0), num_in, tile_depth) as k,
        ):
            depth = _smaller(build, build.sub(num_in, k), tile_depth)
            offset = build.mul(build.add(build.mul(panel, num_in), k), _index(columns))
            these = build.gep(weights, [offset])
            following = build.gep(these, [build.mul(depth, _index(columns))])
            sum_offset = build.mul(panel, _index(num_sums))
            with _loop(build, _index(0), num_rows, at_a_time) as row:
                count = _smaller(build, build.sub(num_rows, row), at_a_time)
                turn = build.sdiv(row, at_a_time)
                arguments = [
                    build.gep(rows, [build.add(build.mul(row, num_in), k)]),
                    these,
                    build.gep(sums, [build.add(build.mul(row, sum_stride), sum_offset)]),
                    build.gep(following, [build.mul(turn, build.mul(step, depth))]),
                    step,
                    depth,
                    num_in,
                    sum_stride,
                    build.icmp_signed("==", k, _index(0)),
                ]
                _call_one_of(build, tiles, count, arguments)
        build.ret_void()
        return function

    def _product(self, part: ir.Function) -> None:
        """What Python calls: the task on the stack, and the threads for it."""
        kind = ir.FunctionType(_VOID, [_INDEX] * 8)
        function = ir.Function(self._module, kind, "product")
        build = ir.IRBuilder(function.append_basic_block("entry"))
        task = build.alloca(_INDEX, 7)
        *words, num_threads = function.args
        for word, value in enumerate(words):
            build.store(value, build.gep(task, [_index(word)]))
        start = self._outside(
            "GOMP_parallel", _VOID, [part.type, _INDEX.as_pointer(), _FLAG, _FLAG]
        )
        build.call(start, [part, task, build.trunc(num_threads, _FLAG), ir.Constant(_FLAG, 0)])
        build.ret_void()

    def _outside(self, name: str, result: Any, parameters: list[Any]) -> ir.Function:
        return ir.Function(self._module, ir.FunctionType(result, parameters), name)


def _index(value: int) -> ir.Constant:
    return ir.Constant(_INDEX, value)


def _smaller(build: ir.IRBuilder, one: Any, other: Any) -> Any:
    return build.select(build.icmp_signed("<", one, other), one, other)


@contextmanager
def _loop(build: ir.IRBuilder, start: Any, stop: Any, step: Any) -> Iterator[Any]:
    """`for value in range(start, stop, step)`; what is built within is its body."""
    before = build.block
    head, body, end = (build.append_basic_block(name) for name in ("head", "body", "end"))
    build.branch(head)
    build.position_at_end(head)
    value = build.phi(_INDEX)
    value.add_incoming(start, before)
    build.cbranch(build.icmp_signed("<", value, stop), body, end)
    build.position_at_end(body)
    yield value
    value.add_incoming(build.add(value, step), build.block)
    build.branch(head)
    build.position_at_end(end)


def _call_one_of(
    build: ir.IRBuilder, tiles: list[ir.Function], count: Any, arguments: list[Any]
) -> None:
    end = build.append_basic_block("end")
    choice = build.switch(count, end)
    for num_rows, tile in enumerate(tiles, start=1):
        with build.goto_block(build.append_basic_block(f"rows_{num_rows}")):
            choice.add_case(_index(num_rows), build.block)
            build.call(tile, arguments)
            build.branch(end)
    build.position_at_end(end)
