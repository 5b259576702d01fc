"""What devices say to each other in a compiled step, read from its HLO.

A scan over layers is a `while` whose body stands once in the text and runs L times, so each
computation is counted as often as it is called: once for the entry, times the trip count for the
body of a loop, once more for every caller.

    ENTRY main { .. while(..), body=%layers, backend_config={"known_trip_count":{"n":"32"}} .. }
    %layers    { .. all-reduce ..  }      counts 32 times

The TPU compiler leaves the trip count out; there it is the constant that the condition compares
the counter with, as a scan counts from 0 by 1.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence

KINDS = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
DTYPE_BYTES = {
    **{"pred": 1, "s8": 1, "u8": 1, "s4": 1, "u4": 1, "bf16": 2, "f16": 2, "s16": 2, "u16": 2},
    **{"f32": 4, "s32": 4, "u32": 4, "f64": 8, "s64": 8, "u64": 8, "c64": 8},
}
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*)$")
_ARRAY = re.compile(r"\b([a-z]+\d*)\[([\d,]*)\]")
_OPERATION = re.compile(r"(?:^|[\s)}\]])([a-z][a-z0-9\-]*)\(")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_COUNTER = re.compile(r"^[su]\d+\[\]\S* constant\((\d+)\)")
_CALLED = re.compile(
    r"\b(body|condition|calls|to_apply|branch_computations|true_computation|false_computation)"
    r"=(\{[^}]*\}|%?[\w.\-]+)"
)


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective of a compiled step.

    Attributes:
      kind: one of KINDS.
      shape: of the whole buffer: what an all-gather or all-reduce gives, what a reduce-scatter
        takes; of several buffers the largest.
      bytes: of the whole buffers on one device.
      times: how often a step runs it.
      group: devices that take part together; 0 where the text does not say.
    """

    kind: str
    shape: tuple[int, ...]
    bytes: int
    times: int
    group: int = 0

    @property
    def traffic(self) -> float:
        """Bytes that each device sends in a step when the group is a ring."""
        group = self.group or 2
        rounds = {"all-reduce": 2.0, "collective-permute": group / (group - 1) if group > 1 else 1}
        return self.times * self.bytes * rounds.get(self.kind, 1.0) * (group - 1) / group


@dataclasses.dataclass
class _Computation:
    """What counts of one computation.

    Attributes:
      collectives: those that stand in it.
      calls: (computation, how often, condition of the loop that it is the body of); 0 times where
        only the condition tells.
      constants: whole scalars in it.
    """

    collectives: list[Collective] = dataclasses.field(default_factory=list)
    calls: list[tuple[str, int, str]] = dataclasses.field(default_factory=list)
    constants: list[int] = dataclasses.field(default_factory=list)


def collectives_of(hlo: str) -> list[Collective]:
    """The collectives of an HLO module in text form, with how often each runs."""
    computations: dict[str, _Computation] = {}
    entry, current = "", None
    shapes: dict[str, str] = {}
    for line in hlo.splitlines():
        if line.endswith("{") and not line.startswith((" ", "HloModule")):
            head = line.removeprefix("ENTRY ").lstrip("%")
            name = re.split(r"[\s(]", head, maxsplit=1)[0]
            current = computations[name] = _Computation()
            shapes = {}
            entry = name if line.startswith("ENTRY") else entry
        elif current is not None and (found := _INSTRUCTION.match(line)):
            _read_instruction(found.group(1), found.group(2), current, shapes)
    totals: list[Collective] = []
    _walk(computations, entry, 1, totals, ())
    return totals


def _walk(
    computations: dict[str, _Computation],
    name: str,
    times: int,
    totals: list[Collective],
    above: tuple[str, ...],
) -> None:
    if name not in computations or name in above:
        return
    totals += [dataclasses.replace(one, times=times) for one in computations[name].collectives]
    for called, trips, condition in computations[name].calls:
        trips = trips or max(_constants(computations, condition), default=1)
        _walk(computations, called, times * trips, totals, (*above, name))


def _constants(computations: dict[str, _Computation], name: str) -> list[int]:
    """Whole scalars in a condition and what it calls."""
    if name not in computations:
        return []
    found = list(computations[name].constants)
    for called, _, _ in computations[name].calls:
        found += _constants(computations, called)
    return found


def _read_instruction(name: str, text: str, current: _Computation, shapes: dict[str, str]) -> None:
    operation = _OPERATION.search(text)
    if operation is None:
        return
    result, word = text[: operation.start(1)], operation.group(1)
    shapes[name] = result
    if found := _COUNTER.match(text):
        current.constants.append(int(found.group(1)))
    kind = word.removesuffix("-start")
    if kind in KINDS:
        operands = _operands(text[operation.end() :])
        given = " ".join(shapes.get(o, "") for o in operands)
        if kind == "reduce-scatter":
            whole = given
        elif word.endswith("-start"):
            # The result of a start is (operands, results, context): the results alone count.
            arrays = _arrays(result)
            whole = _text(arrays[len(operands) : 2 * len(operands)] or arrays)
        else:
            whole = result
        sizes = [(math.prod(shape) * DTYPE_BYTES.get(dtype, 4), shape) for dtype, shape in
                 _arrays(whole)]  # fmt: skip
        if sizes:
            total = sum(size for size, _ in sizes)
            current.collectives.append(Collective(kind, max(sizes)[1], total, 1, _group(text)))
        return  # to_apply of a reduction is arithmetic
    roles = dict(_CALLED.findall(text))
    if word == "while":
        trips = int(found.group(1)) if (found := _TRIPS.search(text)) else 0
        body, condition = roles["body"].lstrip("%"), roles["condition"].lstrip("%")
        current.calls.append((body, trips, condition))
        return
    for role, names in roles.items():
        if role == "to_apply" and word not in ("call", "async-start"):
            continue
        current.calls += [(called, 1, "") for called in re.findall(r"[\w.\-]+", names)]


def _operands(text: str) -> list[str]:
    """Names within the parentheses that `text` starts in."""
    depth = 1
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if depth == 0:
            return re.findall(r"%([\w.\-]+)", text[:place])
    return re.findall(r"%([\w.\-]+)", text)


def _arrays(text: str) -> list[tuple[str, tuple[int, ...]]]:
    return [
        (dtype, tuple(int(n) for n in dims.split(",") if n))
        for dtype, dims in _ARRAY.findall(text)
        if dtype in DTYPE_BYTES
    ]


def _text(arrays: Sequence[tuple[str, tuple[int, ...]]]) -> str:
    return " ".join(f"{dtype}[{','.join(map(str, shape))}]" for dtype, shape in arrays)


def _group(text: str) -> int:
    """Devices of a replica group, which XLA writes in three ways.

    `{{0,1},{2,3}}` lists them; `[groups,size]<=[..]` counts them; `mesh['a'=2,'b'=4] {'b'}` names
    the axes that a group runs along (a part of an axis as `'b':(1)2`, its size last).
    """
    if found := re.search(r"replica_groups=\[(\d+),(\d+)\]", text):
        return int(found.group(2))
    if found := re.search(r"replica_groups=\{\{([\d,]*)\}", text):
        return found.group(1).count(",") + 1
    if found := re.search(r"replica_groups=mesh\[([^\]]*)\][^{]*\{([^}]*)\}", text):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", found.group(1)))
        along = re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", found.group(2))
        return math.prod(int(part or sizes.get(axis, 1)) for axis, part in along)
    return 0


def bytes_by_kind(collectives: Iterable[Collective]) -> dict[str, int]:
    """Bytes that a step passes through each kind of collective, on one device."""
    totals: dict[str, int] = {}
    for one in collectives:
        totals[one.kind] = totals.get(one.kind, 0) + one.bytes * one.times
    return dict(sorted(totals.items()))


def weight_gathers(
    collectives: Iterable[Collective], weights: Iterable[Sequence[int]]
) -> list[Collective]:
    """The all-gathers that put a whole weight matrix together.

    Args:
      collectives: of a compiled step.
      weights: shapes of the matrices, stacked over layers or not. A gather counts when its result
        has the extents of one of them (of one layer, or of all), in whatever order.
    """
    whole = set()
    for shape in weights:
        for start in range(max(1, len(shape) - 1)):
            whole.add(tuple(sorted(n for n in shape[start:] if n > 1)))
    return [
        one
        for one in collectives
        if one.kind == "all-gather" and tuple(sorted(n for n in one.shape if n > 1)) in whole
    ]
