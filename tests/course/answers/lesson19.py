"""Answers to the exercises of lesson 19: right ones, written in other ways, and ones to refuse."""

import functools
import math

import numpy as np

from attnlab.paged import BlockManager, OutOfBlocks
from tests.course.answers import edited


def waste_by_growing(lengths, block, policy):
    """A piece that grows until the request fits, token by token, block by block, or by doubling."""
    empty = 0
    for n in lengths:
        held = {"maximum": max(lengths), "powers": 1, "pages": 0}[policy]
        while held < n:
            held = 2 * held if policy == "powers" else held + block
        empty += held - n
    return empty


def waste_in_numpy(lengths, block, policy):
    n = np.array(lengths)
    if policy == "maximum":
        return (n.max() - n).sum()
    if policy == "powers":
        return (2 ** np.ceil(np.log2(n)).astype(int) - n).sum()
    return (-n % block).sum()


def waste_of_different_lengths(lengths, block, policy):
    """Two requests of one length count once."""
    return waste_by_growing(sorted(set(lengths)), block, policy)


def waste_by_bits(lengths, block, policy):
    """Right for blocks that are a power of two."""
    if policy == "pages":
        return sum(((n + block - 1) & ~(block - 1)) - n for n in lengths)
    return waste_by_growing(lengths, block, policy)


def reused_by_a_manager(prompt, written, size):
    """The package's manager, fed with every text that is whole; a block that was written again holds the later one."""
    now = dict(written)
    texts = [text for text in now.values() if len(text) % size == 0]
    manager = BlockManager(64, size)
    for name, text in enumerate(texts):
        if all(text[:stop] in texts for stop in range(size, len(text), size)):
            manager.add(name)
            manager.append(name, text)
    return manager.add("prompt", prompt)


def reused_from_the_end(prompt, written, size):
    holds = {tuple(text) for text in dict(written).values()}
    there = [tuple(prompt[:stop]) in holds for stop in range(size, len(prompt), size)]
    return size * next((i for i, found in enumerate(there) if not found), len(there))


def reused_of_the_first_text(prompt, written, size):
    """Compares with the longest text only."""
    text = max((text for _, text in written), key=len, default=[])
    same = next((i for i, (a, b) in enumerate(zip(prompt, text)) if a != b), min(len(prompt), len(text)))
    return min(same, max(len(prompt) - 1, 0)) // size * size


def reused_by(name):
    """Prefixes of which only ``name`` is compared."""

    def reused_tokens(prompt, written, size):
        there, count = {name(text, size) for text in dict(written).values()}, 0
        while count + size < len(prompt) and name(prompt[: count + size], size) in there:
            count += size
        return count

    return reused_tokens


reused_by_sums = reused_by(lambda text, size: (len(text), sum(text)))
reused_by_two_blocks = reused_by(lambda text, size: (len(text), *text[-2 * size :]))
# texts whose hashes are equal are the same
reused_by_31 = reused_by(lambda text, size: (len(text), functools.reduce(lambda h, x: (31 * h + x) % 2**64, text, 0)))


def reused_by_an_index(prompt, written, size):
    """A text is forgotten with one of the blocks that held it."""
    index, holds = {}, {}
    for block, text in written:
        index.pop(holds.get(block), None)
        holds[block] = tuple(text)
        index[holds[block]] = block
    return reused_from_the_end(prompt, list(zip(index.values(), index)), size)


def append_by_token(table, length, references, free, count, size):
    """One token after another, each with its own question."""
    table, references, free, slots, copies = [*table], [*references], iter(free), [], []
    for t in range(length, length + count):
        if t % size == 0:
            table.append(next(free))
            references[table[-1]] += 1
        elif references[table[-1]] > 1:
            new = next(free)
            copies.append((table[-1], new))
            references[table[-1]], references[new] = references[table[-1]] - 1, 1
            table[-1] = new
        slots.append(table[-1] * size + t % size)
    return slots, copies, table, references


def append_in_numpy(table, length, references, free, count, size):
    table, references = np.array(table, int), np.array(references)
    copies = np.zeros((0, 2), int)
    if count and -length % size and references[table[-1]] > 1:
        copies = np.array([[table[-1], free[0]]])
        references[copies[0]] += [-1, 1]
        table = np.append(table[:-1], free[0])
    more = math.ceil((length + count) / size) - len(table)
    new = np.array(free[len(copies) : len(copies) + more], int)
    references[new] = 1
    table, t = np.append(table, new), np.arange(length, length + count)
    return table[t // size] * size + t % size, copies.tolist(), table, references


def manager_of_the_package(blocks, size, serve):
    return serve(BlockManager(blocks, size))


class Held:
    """What is free and what is shared is found in the tables, which are all that is kept."""

    def __init__(self, blocks, size):
        self.blocks, self.size, self.tables, self.lengths = blocks, size, {}, {}

    def count(self, block):
        return sum(block in table for table in self.tables.values())

    @property
    def free_blocks(self):
        return sum(not self.count(block) for block in range(self.blocks))

    def table(self, name):
        return self.tables[name]

    def add(self, name):
        self.tables[name], self.lengths[name] = (), 0

    def append(self, name, count):
        table, slots, copies = [*self.tables[name]], [], []
        free = [block for block in range(self.blocks) if not self.count(block)]
        for t in range(self.lengths[name], self.lengths[name] + count):
            if t % self.size == 0 or (self.count(table[-1]) > 1):
                if not free:
                    raise OutOfBlocks("none is left")
                if t % self.size:
                    copies.append((table.pop(), free[0]))
                table.append(free.pop(0))
            slots.append(self.size * table[-1] + t % self.size)
        self.tables[name], self.lengths[name] = tuple(table), self.lengths[name] + count
        return slots, copies

    def fork(self, name, child):
        self.tables[child], self.lengths[child] = self.tables[name], self.lengths[name]

    def free(self, name):
        del self.tables[name], self.lengths[name]


def manager_without_counts(blocks, size, serve):
    return serve(Held(blocks, size))


class Leaking(Held):
    """Says that it has all blocks."""

    @property
    def free_blocks(self):
        return self.blocks


class Copying(Held):
    """fork copies what it could share: nothing is wrong, and memory is lost."""

    def fork(self, name, child):
        self.tables[name]
        self.add(child)
        self.append(child, self.lengths[name])


def manager_that_leaks(blocks, size, serve):
    return serve(Leaking(blocks, size))


def manager_that_shares_nothing(blocks, size, serve):
    return serve(Copying(blocks, size))


RIGHT = [
    ("wasted_slots", waste_by_growing),
    ("wasted_slots", waste_in_numpy),
    ("reused_tokens", reused_by_a_manager),
    ("reused_tokens", reused_from_the_end),
    ("fixed_append", append_by_token),
    ("fixed_append", append_in_numpy),
    ("block_manager", manager_of_the_package),
    ("block_manager", manager_without_counts),
]

POWER = "1 << (n - 1).bit_length()"
waste_up_to_2048 = edited("wasted_slots", POWER, f"min({POWER}, 2048)")
waste_in_int32 = edited("wasted_slots", "held - sum(lengths)", "(held - sum(lengths) + 2**31) % 2**32 - 2**31")
reused_from_before = edited("reused_tokens", "size: int)", "size: int, holds={})", "    holds = {}\n", "")
manager_with_a_reserve = edited(
    "block_manager", "more + shared > len(self.unused)",
    "more + shared + any(r > 1 for r in self.references) * (count > 0) > len(self.unused)",
)  # fmt: skip


append_that_asks_the_first_block = edited(
    "fixed_append",
    "references[table[-1]] > 1:",
    "references[table[0]] > 1:",
)


REFUSED = [
    ("reused_tokens", reused_of_the_first_text, "the first block is one text"),
    ("block_manager", manager_that_leaks, "CONSERVE: free_blocks is 4, not 3"),
    ("block_manager", manager_that_shares_nothing, "SIBLING"),
    ("wasted_slots", waste_of_different_lengths, "lengths [6, 6, 10, 6]"),
    ("wasted_slots", waste_by_bits, "You round up with bits"),
    ("reused_tokens", reused_by_sums, "less than the whole prefix"),
    ("reused_tokens", reused_by_two_blocks, "less than the whole prefix"),
    ("reused_tokens", reused_by_an_index, "as long as one of them holds it"),
    ("wasted_slots", waste_up_to_2048, "lengths 3000"),
    ("wasted_slots", waste_in_int32, "more than 2³¹ slots"),
    ("reused_tokens", reused_by_31, "31 · 1 + 0"),
    ("reused_tokens", reused_from_before, "nothing was written"),
    ("block_manager", manager_with_a_reserve, "the last free block is taken"),
    ("fixed_append", append_that_asks_the_first_block, "written in place"),
]
