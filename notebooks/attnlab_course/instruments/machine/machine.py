"""A machine with two memories: HBM, large and slow, and SRAM, small and fast.

Arrays lie in HBM, and a program has only references to them. It loads tiles into SRAM, computes there with
NumPy, and stores tiles back; every load and every store is counted:

    machine = Machine(capacity=192 * 1024)
    x, y = machine.put("x", array), machine.empty("y", array.shape, array.dtype)
    for rows in blocks(len(array), 16):
        with machine.scope():                          # releases at its end what was loaded and kept inside
            x_i = machine.load(x, rows)
            machine.store(y, rows, machine.keep("y_i", 2 * x_i))
    machine.fetch(y), machine.loads, machine.stores, machine.bytes, machine.peak

SRAM holds what was loaded and what was given to ``keep``. An intermediate result inside one expression, such as
p @ v in o += p @ v, is taken to stay in registers. Source: Dao et al. 2022, section 2.1; the names Ref, load and
store are those of Pallas.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np

Index = Any  # what NumPy takes between brackets: a slice, an integer, ..., or a tuple of those


@dataclass
class Arithmetic:
    """Floating-point operations, counted as they are done.

    products: of matrix products, 2·r·x·c for (r, x) by (x, c). exponentials: with logarithms, one each.
    rest: one for every number that any other operation computes, or that a sum or maximum reads.
    Choosing, comparing and generating random numbers are not counted.
    """

    products: int = 0
    exponentials: int = 0
    rest: int = 0

    def add(self, ufunc: np.ufunc, method: str, inputs: list, result: Any) -> None:
        """Count one operation of NumPy."""
        if ufunc is np.matmul:
            self.products += 2 * result.size * inputs[0].shape[-1]
        elif ufunc in (np.exp, np.log):
            self.exponentials += result.size
        elif result.dtype.kind == "f":
            self.rest += inputs[0].size if method == "reduce" else result.size


class OnChip(np.ndarray):
    """A NumPy array in fast memory; whatever is computed from it by NumPy's operations is counted in ``work``."""

    work: Arithmetic | None

    def __array_finalize__(self, source: Any) -> None:
        self.work = getattr(source, "work", None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple = (), **options: Any) -> Any:
        arrays = [_uncounted(x) for x in inputs]
        options = {name: _uncounted(x) for name, x in options.items()}  # where=, too, can be an array in fast memory
        if out:
            options["out"] = tuple(_uncounted(x) for x in out)
        result = getattr(ufunc, method)(*arrays, **options)
        results = result if isinstance(result, tuple) else (result,)
        if self.work is not None and result is not None:  # ufunc.at returns None
            self.work.add(ufunc, method, arrays, results[0])
        found = out or tuple(on_chip(x, self.work) if isinstance(x, np.ndarray) else x for x in results)
        return found if len(found) > 1 else found[0]


def on_chip(array: np.ndarray, work: Arithmetic | None) -> OnChip:
    """View ``array`` as one in fast memory, whose operations count into ``work``; nothing is copied."""
    result = array.view(OnChip)
    result.work = work
    return result


def _uncounted(x: Any) -> Any:
    """View an array in fast memory as an ordinary one, which counts nothing; anything else stays as it is."""
    return x.view(np.ndarray) if isinstance(x, OnChip) else x


class OutOfSRAM(MemoryError):
    """A tile does not fit; the message says what is held."""


class Held(NamedTuple):
    """A tile in SRAM."""

    name: str
    array: OnChip
    bytes: int


class SRAM:
    """Holds tiles. ``capacity`` in bytes, None unbounded; if ``strict``, it cannot be exceeded."""

    def __init__(self, capacity: int | None, strict: bool) -> None:
        self.capacity, self.strict = capacity, strict
        self.tiles: list[Held] = []
        self.held = self.peak = 0

    def keep(self, name: str, array: np.ndarray, size: int, work: Arithmetic) -> OnChip:
        """Hold a copy of ``array``, counted as ``size`` bytes."""
        if self.strict and self.capacity is not None and self.held + size > self.capacity:
            raise OutOfSRAM(
                f"{name} {array.shape} needs {size:,} bytes of SRAM, and {self.capacity - self.held:,} of "
                f"{self.capacity:,} are free; held are {self.inventory()}"
            )
        self.tiles.append(Held(name, on_chip(np.array(array), work), size))
        self.held += size
        self.peak = max(self.peak, self.held)
        return self.tiles[-1].array

    def free(self, array: np.ndarray) -> None:
        """Release a tile; its numbers become NaN, so that using it later shows."""
        at = self.find(array)
        if at is None:
            raise ValueError(f"an array of shape {array.shape} is freed that is not in SRAM")
        self.held -= self.tiles.pop(at).bytes
        array.fill(np.nan if array.dtype.kind == "f" else 0)

    def find(self, array: np.ndarray) -> int | None:
        """The place of a tile, None if it is not held."""
        return next((i for i, held in enumerate(self.tiles) if held.array is array), None)

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Release at the end whatever was held inside and not yet freed."""
        before = {id(held.array) for held in self.tiles}
        try:
            yield
        finally:
            for held in [held for held in self.tiles if id(held.array) not in before]:
                self.free(held.array)

    def inventory(self) -> str:
        """What is held, by name, shape and size."""
        return ", ".join(f"{name} {array.shape} {size:,}" for name, array, size in self.tiles) or "nothing"


@dataclass(frozen=True, eq=False)
class Ref:
    """An array in HBM: its name, shape and dtype, but not its numbers, which only a load gives."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"{self.name} lies in HBM; a program gets at its numbers by machine.load")

    __array__ = __getitem__ = __setitem__ = __iter__ = __len__ = _refuse


class Machine:
    """Counts what programs move, hold and compute.

    ``capacity``: of SRAM, in bytes; None is unbounded. It is nominal, to be compared with ``peak``, unless
    ``strict``: then what does not fit raises :class:`OutOfSRAM`. ``itemsize``: bytes that a number is counted
    with, 2 for half precision, whatever the precision it is computed in; booleans count 1. ``watch``, if
    given, is called as watch(kind, name, index, elements) at every load, store and fill.

    loads, stores: elements moved, by the array's name. fills: elements of HBM that were set to a constant,
    counted apart, as not every published count includes them. work: the arithmetic done.
    """

    def __init__(
        self, capacity: int | None = None, *, itemsize: int = 2, strict: bool = False, watch: Callable | None = None
    ) -> None:
        self.itemsize, self.watch = itemsize, watch
        self.loads, self.stores, self.fills = Counter(), Counter(), Counter()
        self.work = Arithmetic()
        self.sram = SRAM(capacity, strict)
        self._hbm: dict[Ref, np.ndarray] = {}

    def put(self, name: str, array: np.ndarray) -> Ref:
        """Bring an input into HBM: the host's doing, not counted."""
        if any(name == ref.name for ref in self._hbm):
            raise ValueError(f"HBM has an array named {name} already; start another run with a new Machine")
        ref = Ref(name, array.shape, array.dtype)
        self._hbm[ref] = np.array(array)
        return ref

    def fetch(self, ref: Ref) -> np.ndarray:
        """Copy a result out of HBM: the host's doing, not counted, and refused while a program holds tiles."""
        if self.sram.tiles:
            raise RuntimeError(f"{ref.name} is fetched before the program has freed {self.sram.inventory()}")
        return self._at(ref).copy()

    def empty(self, name: str, shape: tuple[int, ...], dtype: Any) -> Ref:
        """An array in HBM that nobody has written: it holds NaN."""
        return self.put(name, np.full(shape, np.nan, dtype))

    def full(self, name: str, shape: tuple[int, ...], value: float, dtype: Any) -> Ref:
        """An array in HBM filled with ``value``, counted as fills."""
        ref = self.put(name, np.full(shape, value, dtype))
        self._count("fill", ref, ..., self._at(ref).size)
        return ref

    def load(self, ref: Ref, index: Index = ...) -> OnChip:
        """Copy ref[index] to SRAM, where it is held until it is freed."""
        array = self._at(ref)[index]
        loaded = self.keep(ref.name, array)
        self._count("load", ref, index, array.size)
        return loaded

    def store(self, ref: Ref, index: Index, array: np.ndarray) -> None:
        """Write a tile that SRAM holds to ref[index]; it stays in SRAM. Shapes must be equal."""
        if self.sram.find(array) is None:
            raise ValueError(f"what is stored to {ref.name} is not held in SRAM: give it to machine.keep first")
        shape = self._at(ref)[index].shape
        if shape != array.shape:
            raise ValueError(f"a tile of shape {array.shape} is stored to a part of {ref.name} of shape {shape}")
        self._at(ref)[index] = array
        self._count("store", ref, index, array.size)

    def keep(self, name: str, array: np.ndarray) -> OnChip:
        """Hold a result in SRAM until it is freed; returns the tile to go on with, a copy."""
        array = np.asanyarray(array)  # which a Ref refuses, as its numbers lie in HBM
        return self.sram.keep(name, array, array.size * self._width(array.dtype), self.work)

    def free(self, *tiles: np.ndarray) -> None:
        """Release tiles; their numbers become NaN, so that using them later shows."""
        for array in tiles:
            self.sram.free(array)

    def scope(self) -> contextlib.AbstractContextManager:
        """``with machine.scope():`` releases at its end what was loaded and kept inside."""
        return self.sram.scope()

    @property
    def peak(self) -> int:
        """The most bytes that SRAM has held."""
        return self.sram.peak

    @property
    def elements(self) -> int:
        """Elements loaded and stored so far, without fills."""
        return self.loads.total() + self.stores.total()

    @property
    def bytes(self) -> int:
        """Bytes loaded and stored so far, without fills."""
        width = {ref.name: self._width(ref.dtype) for ref in self._hbm}
        return sum(width[name] * count for moved in (self.loads, self.stores) for name, count in moved.items())

    def _width(self, dtype: np.dtype) -> int:
        return 1 if dtype.kind == "b" else self.itemsize

    def _at(self, ref: Ref) -> np.ndarray:
        if not isinstance(ref, Ref):
            raise TypeError(f"{type(ref).__name__} is no array in HBM; machine.put(name, array) brings it there")
        if ref not in self._hbm:
            raise ValueError(f"{ref.name} lies in the HBM of another machine")
        return self._hbm[ref]

    def _count(self, kind: str, ref: Ref, index: Index, elements: int) -> None:
        {"load": self.loads, "store": self.stores, "fill": self.fills}[kind][ref.name] += elements
        if self.watch is not None:
            self.watch(kind, ref.name, index, elements)
