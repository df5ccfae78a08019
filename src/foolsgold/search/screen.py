"""A first look at documents in 8-bit integers, which tells most pairs apart at a quarter of the cost of float32.

Queries and documents are rounded to int8, and CPUs with AVX-512 VNNI multiply and add 64 such pairs of numbers in one
instruction. What the rounding can change is bounded by the Cauchy-Schwarz inequality from the lengths of the rounding
errors, which are known: a pair is dropped only where its inner product cannot be above the query's bar. So this decides
what is looked at again, never a score, and a search gives the same with it and without.

    q.x = q.c + Q.Y + (q - Q).Y + q.(x - c - Y)      c: the centre of the x; Q and Y: q and x - c in int8
    |(q - Q).Y + q.(x - c - Y)| <= |q - Q| |Y| + |q| |x - c - Y|

numba has no vectors and no such instruction, so the innermost loop is given to LLVM directly, by llvmlite. This is the
one piece of search that is written for one family of CPUs. It is here because it buys a whole run something: mining
10,000 queries of 100,000 documents without a model takes 29.8 s of CPU with it and 37.9 s without
(`python benchmarks/whole_run.py`, 2 cores with AVX-512 VNNI and bf16).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from foolsgold.records import FloatArray
from foolsgold.search.kernels import compiled, compiled_sum
from foolsgold.search.threads import Threads

_Lengths = npt.NDArray[np.float64]

_GROUP = 64  # documents that lie together: four vector registers of 16 sums
_TILE = 6  # queries multiplied with a group at once: 6 x 4 sums, and what they are made of, fill the 32 registers
_QUERIES_AT_ONCE = 4096
_LARGEST = 127
_SHIFT = 128  # the instruction multiplies unsigned by signed, so documents are stored with 128 added
_WITHOUT_SIGN = 0x7FFFFFFF
_SMALLEST_STEP = 1e-37  # below, one over it is no float32
_MAX_DIMENSION = 1 << 16  # the sums must fit int32
_UNIT = 2.0**-24  # the relative rounding error of one float32 operation


def available(dimension: int) -> bool:
    """Whether the code that numba makes for this machine may use AVX-512 VNNI, and the sums fit."""
    _, _, features = cpu_target.target_context.codegen().magic_tuple()
    return "+avx512vnni" in features.split(",") and dimension <= _MAX_DIMENSION


@dataclass(frozen=True)
class Packed:
    """A block of documents in int8.

    codes: uint8 (groups, ceil(d / 4), 64, 4); scales: float32 (groups * 64), what one step of a code is worth;
    errors: float32 (groups * 64), no less than the length of what rounding lost, -inf where there is no document;
    longest, largest_error: of all rounded documents.
    """

    codes: npt.NDArray[np.uint8]
    scales: FloatArray
    errors: FloatArray
    longest: float
    largest_error: float


class Screen:
    """Queries in int8, to be held against blocks of documents.

    queries: (q, d), of any float type; lengths: float64 (q), theirs; sample: float32 (n, d), some documents, whose mean
    is taken from all: embeddings often point much the same way, and what they share tells none apart.
    """

    def __init__(self, queries: npt.NDArray[Any], lengths: _Lengths, sample: FloatArray) -> None:
        n, dimension = queries.shape
        rows = n + _TILE  # a last tile may reach past the end
        self._centre = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
        self._codes = np.zeros((rows, -(-dimension // 4) * 4), dtype=np.int8)
        self._scales, self._lost, self._offsets = np.ones(rows), np.zeros(rows), np.zeros(rows)
        for start in range(0, n, _QUERIES_AT_ONCE):
            part = slice(start, min(start + _QUERIES_AT_ONCE, n))
            some = np.ascontiguousarray(queries[part], dtype=np.float32)
            _round_queries(some, self._codes[part], self._scales[part], self._lost[part])
            self._offsets[part] = some.astype(np.float64) @ self._centre.astype(np.float64)
        self._starts = (-_SHIFT * self._codes.sum(axis=1, dtype=np.int64)).astype(np.int32)
        self._lengths = lengths
        self._per_error = np.zeros(rows, dtype=np.float32)
        self._per_error[:n] = _up(lengths / self._scales[:n])

    def pack(self, block: FloatArray, threads: Threads) -> Packed:
        """Round a block of documents, float32 (n, d)."""
        groups, steps = -(-len(block) // _GROUP), self._codes.shape[1] // 4
        codes = _aligned_bytes(groups * steps * _GROUP * 4).reshape(groups, steps, _GROUP, 4)
        scales = np.zeros(groups * _GROUP, dtype=np.float32)
        lost = np.full(groups * _GROUP, -np.inf, dtype=np.float64)
        lengths = np.zeros(groups * _GROUP, dtype=np.float64)

        def work(part: slice) -> None:
            rows = slice(part.start * _GROUP, min(part.stop * _GROUP, len(block)))
            _round_documents(block[rows], self._centre, codes[part], scales[rows], lost[rows], lengths[rows])

        threads.spread(work, groups, -(-groups // threads.count))
        errors = _up(lost)
        return Packed(codes, scales, errors, float(lengths.max()), float(errors.max()))

    def passed(self, packed: Packed, part: slice, bars: FloatArray) -> npt.NDArray[np.uint64]:
        """Which documents may be above the bars, float32, of a slice of the queries.

        uint64 (at least as many as the slice has, groups): bit d of word g is set where document g * 64 + d may be.
        """
        scales, lengths = self._scales[part], self._lengths[part]
        in_codes = lengths / scales  # the longest that a query is, in its own steps
        lost = self._lost[part]
        rounding = 4 * _UNIT * ((in_codes + lost / scales) * packed.longest + in_codes * packed.largest_error)
        entries = (bars.astype(np.float64) - self._offsets[part] - lost * packed.longest * (1 + 4 * _UNIT)) / scales
        tiles = -(-len(bars) // _TILE)
        limits = np.full(tiles * _TILE, np.inf, dtype=np.float32)
        limits[: len(bars)] = _down(entries - rounding - abs(entries) * 2 * _UNIT)
        words = np.empty((tiles * _TILE, len(packed.codes)), dtype=np.uint64)
        start = part.start
        _look(
            packed.codes,
            packed.scales,
            packed.errors,
            self._codes[start:],
            self._starts[start:],
            self._per_error[start:],
            limits,
            words,
        )
        return words


def _aligned_bytes(size: int) -> npt.NDArray[np.uint8]:
    """Memory that starts with a cache line, as the loads of the inner loop want it."""
    memory = np.empty(size + 63, dtype=np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size]


def _up(values: _Lengths) -> FloatArray:
    """float32, none below its value."""
    return np.nextafter(values.astype(np.float32), np.float32(np.inf))


def _down(values: _Lengths) -> FloatArray:
    rounded = values.astype(np.float32)
    return np.where(rounded > values, np.nextafter(rounded, np.float32(-np.inf)), rounded)


@compiled
def _round_queries(queries: Any, codes: Any, scales: Any, lost: Any) -> None:
    for query in range(len(queries)):
        largest = np.float32(0)
        for i in range(queries.shape[1]):
            largest = max(largest, abs(queries[query, i]))
        step = np.float64(largest) / _LARGEST
        if step == 0:
            continue
        total = 0.0
        for i in range(queries.shape[1]):
            code = np.rint(queries[query, i] / step)
            codes[query, i] = np.int8(code)
            total += (queries[query, i] - code * step) ** 2
        scales[query] = step
        lost[query] = np.sqrt(total) * (1 + 1e-9)


@compiled
def _round_documents(block: Any, centre: Any, codes: Any, scales: Any, lost: Any, lengths: Any) -> None:
    dimension = block.shape[1]
    moved = np.zeros(dimension, np.float32)
    bits = moved.view(np.uint32)
    line = np.full(4 * codes.shape[1], np.uint8(_SHIFT), np.uint8)
    fours = line.view(np.uint32)
    words = codes.view(np.uint32)
    for row in range(len(block)):
        for i in range(dimension):
            moved[i] = block[row, i] - centre[i]
        largest = np.uint32(0)
        for i in range(dimension):  # a float without its sign orders like its bits, and those have a vector maximum
            largest = max(largest, bits[i] & np.uint32(_WITHOUT_SIGN))
        step = np.uint32(largest).view(np.float32) / np.float32(_LARGEST)
        per_step = np.float32(1) / step if _SMALLEST_STEP < step < np.inf else np.float32(0)
        for i in range(dimension):
            line[i] = np.uint8(np.int32(np.rint(moved[i] * per_step)) + _SHIFT)
        lost[row], lengths[row] = _rounding(block[row], centre, line, step)
        scales[row] = step
        group, place = row // _GROUP, row % _GROUP
        for s in range(len(fours)):
            words[group, s, place, 0] = fours[s]
    for row in range(len(block), len(codes) * _GROUP):
        for s in range(len(fours)):
            words[row // _GROUP, s, row % _GROUP, 0] = 0


@compiled_sum
def _rounding(document: Any, centre: Any, line: Any, step: Any) -> Any:
    """Length of what is left of document - centre without its codes, and length of the codes, both rounded up."""
    lost = 0.0
    length = 0.0
    for i in range(len(document)):
        code = np.float64(step) * (np.float64(line[i]) - _SHIFT)
        rest = np.float64(document[i]) - np.float64(centre[i]) - code
        lost += rest * rest
        length += code * code
    return np.sqrt(lost) * (1 + 1e-9), np.sqrt(length) * (1 + 1e-9)


@compiled
def _look(
    codes: Any, scales: Any, errors: Any, queries: Any, starts: Any, per_error: Any, limits: Any, words: Any
) -> None:
    """Set the bits of `words` (q, groups) where sum * scale + error * per_error > limit; q is a multiple of a tile."""
    groups, steps = codes.shape[0], codes.shape[1]
    for group in range(groups):
        for query in range(0, len(words), _TILE):
            _look_at_tile(
                codes.ctypes.data + group * steps * _GROUP * 4,
                queries.ctypes.data + query * queries.shape[1],
                queries.shape[1],
                starts.ctypes.data + query * 4,
                scales.ctypes.data + group * _GROUP * 4,
                errors.ctypes.data + group * _GROUP * 4,
                per_error.ctypes.data + query * 4,
                limits.ctypes.data + query * 4,
                words.ctypes.data + (query * groups + group) * 8,
                groups * 8,
            )


_I16, _I32, _I64, _F32 = ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
_LANES = 16
_INTS, _FLOATS = ir.VectorType(_I32, _LANES), ir.VectorType(_F32, _LANES)
_REGISTERS = _GROUP // _LANES


def _type_tile(
    typing_context: Any,
    codes: Any,
    queries: Any,
    dimension: Any,
    starts: Any,
    scales: Any,
    errors: Any,
    per_error: Any,
    limits: Any,
    words: Any,
    word_stride: Any,
) -> Any:
    """One group of documents and one tile of queries; all but the dimension and the stride, in bytes, are addresses."""
    llvm.initialize_native_asmparser()  # numba itself does without
    return types.void(*[types.intp] * 10), _emit_tile


def _emit_tile(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
    codes, queries, dimension, starts, scales, errors, per_error, limits, words, word_stride = arguments
    multiply_add = ir.InlineAsm(
        ir.FunctionType(_INTS, [_INTS, _INTS, _INTS]), "vpdpbusd $3, $2, $0", "=v,0,v,v", side_effect=False
    )

    def load(kind: Any, address: Any, offset: Any) -> Any:
        if isinstance(offset, int):
            offset = ir.Constant(_I64, offset)
        return build.load(build.inttoptr(build.add(address, offset), kind.as_pointer()))

    def spread(number: Any) -> Any:
        empty = ir.Constant(ir.VectorType(number.type, _LANES), ir.Undefined)
        first = build.insert_element(empty, number, ir.Constant(_I32, 0))
        return build.shuffle_vector(first, empty, ir.Constant(_INTS, [0] * _LANES))

    query_at = [queries]
    for _ in range(_TILE - 1):
        query_at.append(build.add(query_at[-1], dimension))
    begin = [spread(load(_I32, starts, 4 * q)) for q in range(_TILE)]

    # Each time, four numbers further: sums[q][r] += those of query q times those of the 16 documents in register r.
    before = build.block
    loop, after = build.append_basic_block("loop"), build.append_basic_block("after")
    build.branch(loop)
    build.position_at_end(loop)
    at = build.phi(_I64)
    at.add_incoming(ir.Constant(_I64, 0), before)
    sums = [[build.phi(_INTS) for _ in range(_REGISTERS)] for _ in range(_TILE)]
    documents = []
    for r in range(_REGISTERS):
        row = load(_INTS, codes, build.add(build.mul(at, ir.Constant(_I64, _GROUP)), ir.Constant(_I64, r * 64)))
        row.align = 64
        documents.append(row)
    following = build.add(at, ir.Constant(_I64, 4))
    at.add_incoming(following, loop)
    totals = []
    for q in range(_TILE):
        query = spread(load(_I32, query_at[q], at))
        totals.append([build.call(multiply_add, [sums[q][r], documents[r], query]) for r in range(_REGISTERS)])
        for r in range(_REGISTERS):
            sums[q][r].add_incoming(begin[q], before)
            sums[q][r].add_incoming(totals[q][r], loop)
    build.cbranch(build.icmp_signed("<", following, dimension), loop, after)

    build.position_at_end(after)
    for q in range(_TILE):
        limit = spread(load(_F32, limits, 4 * q))
        weight = spread(load(_F32, per_error, 4 * q))
        word = ir.Constant(_I64, 0)
        for r in range(_REGISTERS):
            value = build.fmul(build.sitofp(totals[q][r], _FLOATS), load(_FLOATS, scales, 64 * r))
            most = build.fadd(value, build.fmul(load(_FLOATS, errors, 64 * r), weight))
            bits = build.bitcast(build.fcmp_ordered(">", most, limit), _I16)
            word = build.or_(word, build.shl(build.zext(bits, _I64), ir.Constant(_I64, _LANES * r)))
        build.store(word, build.inttoptr(words, _I64.as_pointer()))
        words = build.add(words, word_stride)
    return context.get_dummy_value()


_look_at_tile: Any = intrinsic(_type_tile)
