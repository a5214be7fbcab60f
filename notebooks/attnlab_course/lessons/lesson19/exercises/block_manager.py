"""Lesson 19, ★★★: a block manager of one's own."""

from collections.abc import Callable, Hashable
from typing import Any

from attnlab.paged import OutOfBlocks
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np


def block_manager(blocks: int, size: int, serve: Callable[[Any], Any]) -> Any:
    """Write a block manager, and return serve(manager), which carries out operations on it and says what came of them.

    It gives ``blocks`` blocks of ``size`` tokens to sequences, by name:

        add(name)            begins an empty sequence
        append(name, count)  makes room for more tokens; returns (slots, copies): the slot of each new token, and pairs
                             (from block, to block), which are copied before anything is written
        fork(name, child)    begins ``child`` with all that ``name`` has; no block is copied now
        free(name)           ends a sequence; blocks that no table holds any more may be taken again
        table(name)          the blocks of a sequence, in the order of its tokens
        free_blocks          how many blocks no table holds: an attribute or a property

    Nobody writes into a block that another table holds, and nothing is copied without need. append raises OutOfBlocks
    before it has changed anything; append, fork and free raise KeyError for a name that is unknown or was freed.
    """

    class Manager:
        def __init__(self) -> None:
            self.tables, self.lengths = {}, {}
            self.references, self.unused = [0] * blocks, [*range(blocks)]

        @property
        def free_blocks(self) -> int:
            return len(self.unused)

        def table(self, name: Hashable) -> list[int]:
            return self.tables[name]

        def take(self) -> int:
            block = self.unused.pop()
            self.references[block] = 1
            return block

        def release(self, block: int) -> None:
            self.references[block] -= 1
            if self.references[block] == 0:
                self.unused.append(block)

        def add(self, name: Hashable) -> None:
            self.tables[name], self.lengths[name] = [], 0

        def append(self, name: Hashable, count: int) -> tuple[list[int], list[tuple[int, int]]]:
            table, length = self.tables[name], self.lengths[name]
            more = -(-(length + count) // size) - len(table)
            shared = count > 0 and length % size > 0 and self.references[table[-1]] > 1  # eq. 19.6
            if more + shared > len(self.unused):
                raise OutOfBlocks
            copies = []
            if shared:
                copies.append((table[-1], self.take()))
                self.release(table[-1])
                table[-1] = copies[0][1]
            table += [self.take() for _ in range(more)]
            self.lengths[name] += count
            return [size * table[t // size] + t % size for t in range(length, length + count)], copies

        def fork(self, name: Hashable, child: Hashable) -> None:
            self.tables[child], self.lengths[child] = list(self.tables[name]), self.lengths[name]
            for block in self.tables[child]:
                self.references[block] += 1

        def free(self, name: Hashable) -> None:
            for block in self.tables.pop(name):
                self.release(block)

    return serve(Manager())


class Driver:
    """Operations for a manager, and pages to write to: after each operation every sequence is read through its table.

    A call returns a row of integers for each operation: free blocks (CONSERVE), tokens that have no slot or are not
    what was written there, of the sequence that grew and of others (SIBLING), blocks copied, and 0, 1 for OutOfBlocks
    or 2 for KeyError.
    """

    def __init__(self, size: int, *operations: tuple) -> None:
        self.size, self.operations = size, operations

    def __call__(self, manager: Any) -> np.ndarray:
        if callable(manager.free_blocks):
            raise TypeError("free_blocks is a method here; it is asked for as an attribute or a property")
        pages, texts, token, rows = dict[int, int](), dict[str, list[int]](), 0, []
        for kind, name, *more in self.operations:
            error, copies, lost = 0, [], 0
            try:
                if kind == "append":
                    slots, copies = pair(manager.append(name, *more))
                    self.copy(pages, copies)
                    lost = abs(more[0] - len(slots))
                    for slot in slots:
                        pages[int(slot)] = token = token + 1
                        texts.setdefault(name, []).append(token)
                else:
                    getattr(manager, kind)(name, *more)
            except OutOfBlocks:
                error = 1
            except KeyError:
                error = 2
            else:
                if kind == "add":
                    texts[name] = []
                elif kind == "fork":
                    texts[more[0]] = list(texts.get(name, []))
                elif kind == "free":
                    texts.pop(name, None)
            misread = [lost, 0]
            for other, text in texts.items() if not error else ():
                misread[kind != "append" or other != name] += self.misread(pages, list(manager.table(other)), text)
            rows.append([int(manager.free_blocks), *misread, len(copies), error])
        return np.array(rows)

    def copy(self, pages: dict[int, int], copies: list[tuple[int, int]]) -> None:
        """Copy blocks from the first to the second of each pair."""
        for source, to in copies:
            for place in range(self.size):
                pages[int(to) * self.size + place] = pages.get(int(source) * self.size + place, 0)

    def misread(self, pages: dict[int, int], table: list[int], text: list[int]) -> int:
        """How many tokens of a sequence are not found where its table says."""
        slots = [int(block) * self.size + place for block in table for place in range(self.size)]
        found = [pages.get(slot) for slot in slots[: len(text)]]
        return sum(a != b for a, b in zip(found, text)) + len(text) - len(found)


def pair(result: Any) -> tuple:
    """What append returns."""
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise TypeError(f"append returns two things, (slots, copies); it returned {result!r}")
    return tuple(result)


def said(operation: tuple) -> str:
    """An operation as a call."""
    kind, *arguments = operation
    return f"{kind}({', '.join(map(repr, arguments))})"


def judge(case: Case, got: Any) -> str | None:
    """The first operation after which something is wrong, in words."""
    driver = case.args[2]
    want, got = block_manager(*case.args), np.asarray(got)
    if got.shape != want.shape:
        return "return what serve(manager) returns"
    for at, (right, found) in enumerate(zip(want.tolist(), got.tolist())):
        before = f"{', '.join(map(said, driver.operations[:at]))}, then " if at else ""
        where = f"after {before}{said(driver.operations[at])}:\n  "
        ends = ("it ends without an error", "it raises OutOfBlocks", "it raises KeyError")
        if found[4] != right[4]:
            return f"{where}{ends[found[4]]}; right is: {ends[right[4]]}"
        if found[3] != right[3]:
            return f"{where}{found[3]} blocks are copied, not {right[3]}"
        if found[2]:
            return f"{where}SIBLING: {found[2]} tokens are read that their sequences have not written"
        if found[1]:
            return (f"{where}{found[1]} of its tokens have no slot, or are not found where its table says: do slots, "
                    f"table and copies agree?")
        if found[0] != right[0]:
            return f"{where}CONSERVE: free_blocks is {found[0]}, not {right[0]}"
    return None


def cases() -> list[Case]:
    """Sequences of operations, from one append to random ones."""
    a, fork = ("add", "a"), ("fork", "a", "b")
    calls = [
        ("one sequence, one token", 4, 4, [a, ("append", "a", 1)]),
        ("lengths S − 1, S and S + 1", 4, 4, [a, ("append", "a", 3), ("append", "a", 1), ("append", "a", 1)]),
        ("an append of nothing", 4, 4, [a, ("append", "a", 0), ("append", "a", 2), ("append", "a", 0)]),
        ("two sequences by turns, one is freed", 4, 2,
         [a, ("add", "b"), ("append", "a", 1), ("append", "b", 3), ("append", "a", 2), ("free", "b")]),
        ("two samples of 3 tokens, blocks of 4", 4, 4, [a, ("append", "a", 3), fork, ("append", "a", 1),
                                                       ("append", "b", 1), ("append", "a", 4), ("append", "b", 1)]),
        ("two samples of 5 tokens, the child writes first", 6, 4,
         [a, ("append", "a", 5), fork, ("append", "b", 2), ("append", "a", 2), ("append", "b", 3)]),
        ("an empty sequence is forked", 4, 4, [a, fork, ("append", "b", 3), ("append", "a", 1)]),
        ("three samples of 3 tokens", 4, 4, [a, ("append", "a", 3), fork, ("fork", "a", "c"), ("append", "a", 1),
                                            ("append", "b", 1), ("append", "c", 1)]),
        ("nothing is appended to a shared block", 4, 4, [a, ("append", "a", 3), fork, ("append", "b", 0)]),
        ("the parent is freed first", 4, 2, [a, ("append", "a", 3), fork, ("free", "a"), ("append", "b", 2),
                                             a, ("append", "a", 4), ("free", "b")]),
        ("freed twice", 4, 2, [a, ("append", "a", 3), ("free", "a"), ("free", "a"), a, ("append", "a", 8)]),
        ("no such sequence", 2, 2, [("append", "a", 1), a, ("fork", "c", "d"), ("free", "b")]),
        ("too much at once: nothing has changed, and less fits", 3, 2,
         [a, ("append", "a", 3), ("append", "a", 4), ("append", "a", 3), ("append", "a", 1)]),
        ("no block is left for the copy", 2, 2, [a, ("append", "a", 3), fork, ("append", "b", 1), ("free", "a"),
                                                ("append", "b", 1), ("append", "b", 1)]),
        ("a full block is shared, and the last free block is taken", 2, 4,
         [a, ("append", "a", 4), fork, ("append", "b", 1)]),
        ("a fork of a fork outlives both", 4, 4, [a, ("append", "a", 8), fork, ("fork", "b", "c"), ("free", "a"),
                                                  ("free", "b"), ("add", "d"), ("append", "d", 8)]),
    ]
    return [Case(f"{label}; {blocks} blocks of {size}", (blocks, size, Driver(size, *operations)))
            for label, blocks, size, operations in calls]


SHARED = "count > 0 and length % size > 0 and self.references[table[-1]] > 1"
CHECKED = """            if more + shared > len(self.unused):
                raise OutOfBlocks
"""
GROWN = "table += [self.take() for _ in range(more)]"

EXERCISE = Exercise(
    lesson="19", stars=3, reference=block_manager, where="section 5", cases=cases, judge=judge,
    hints=(
        "The state: a table and a length for each sequence, the free blocks, and for each block how many tables hold "
        "it. Write a class inside the function, and return serve(Manager()).",
        "append needs ⌈(length + count) / size⌉ − len(table) new blocks, and one more if the last block is partly "
        "filled, shared, and about to be written (eq. 19.6). Compare with the free blocks *before* you take one.",
        "To copy, take a block, move one reference to it, replace the table's last entry, and return the pair. fork "
        "copies the table and adds one reference to each block; free takes one away.",
    ),
    without={
        "self.references[block] += 1": "Your fork counts no references, so the child's blocks are written by both, "
                                       "and freed by the first (section 5).",
        "self.release(table[-1])": phrases.old_reference("section 5"),
        "table[-1] = copies[0][1]": phrases.writes_shared("eq. 19.2"),
    },
    mistakes=(
        Mistake("You write into a block that a sibling holds: after a fork, whoever writes first needs a copy of the "
                "last block if it's partly filled (eq. 19.6).",
                but(SHARED, "False")),
        Mistake("Your parent and child share one table, so whatever one appends, the other has, too. fork copies the "
                "*table* (section 5).",
                but("list(self.tables[name])", "self.tables[name]")),
        Mistake("You miscount references. A fork adds one to each block, however many it has, and free takes one "
                "away: a block may be given to others when its last reference is gone (section 5).",
                but("self.references[block] += 1", "self.references[block] = 2"),
                but("            self.references[block] -= 1\n            if self.references[block] == 0:\n"
                    "                self.unused.append(block)",
                    "            self.references[block] -= 1\n            self.unused.append(block)",
                    "self.release(table[-1])", "self.references[table[-1]] -= 1")),
        Mistake("You let a sequence be freed twice. Its blocks would be given back twice, so two sequences would get "
                "the same one, and whoever frees twice has lost count and should hear about it: KeyError (section 7).",
                but("self.tables.pop(name)", "self.tables[name]",
                    "            if self.references[block] == 0:", "            if self.references[block] <= 0:"),
                but("self.tables.pop(name)", "self.tables[name]"),
                but("self.tables.pop(name)", "self.tables.pop(name, [])")),
        Mistake("Your append takes blocks one by one and raises OutOfBlocks in the middle. What it has taken is lost "
                "or half written: count first, then take (section 5).",
                but(CHECKED, "", "block = self.unused.pop()",
                    "if not self.unused:\n                raise OutOfBlocks\n            block = self.unused.pop()",
                    GROWN, "for _ in range(more):\n                table.append(self.take())")),
    ),
)
