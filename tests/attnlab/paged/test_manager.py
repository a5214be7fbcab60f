"""The block manager: what it promises case by case, and every law after every operation against plain lists."""

import copy

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from attnlab.paged import BlockManager, OutOfBlocks
from attnlab.paged.prefix import Prefix
from tests.support import refused


class Pages(list):
    """What lies in each slot: the tokens themselves, as keys would."""

    def take(self, step, tokens, block_size):
        """Do what an append asks for: copies first, then the writes."""
        for source, to in step.copies:
            part = slice(source * block_size, (source + 1) * block_size)
            self[to * block_size : (to + 1) * block_size] = self[part]
        for slot, token in zip(step.slots, tokens, strict=True):
            self[slot] = token

    def read(self, manager, name):
        """The tokens of a sequence, through its table."""
        size = manager.block_size
        slots = [block * size + place for block in manager.table(name) for place in range(size)]
        return [self[slot] for slot in slots[: manager.length(name)]]


def state(manager, names):
    """Everything that can be seen of a manager."""
    tables = {name: (manager.table(name), manager.length(name)) for name in names}
    return manager.free_blocks, tables, [manager.references(block) for block in range(manager.blocks)]


def exhaust(manager):
    """The blocks that can still be taken, in the order in which they are; of a copy, so nothing is."""
    manager = copy.deepcopy(manager)
    manager.add(exhaust)
    manager.append(exhaust, manager.free_blocks * manager.block_size)
    with pytest.raises(OutOfBlocks):
        manager.append(exhaust, 1)
    return list(manager.table(exhaust))


class Machine(RuleBasedStateMachine):
    """Random operations; the model is a list of tokens for each sequence, and what lies in each block."""

    BLOCKS, SIZE = 5, 2
    names = st.sampled_from("abcd")
    tokens = st.lists(st.integers(0, 1), max_size=8) | st.integers(0, 8).map(lambda n: [0, 1, 1, 0, 1, 0, 0, 1][:n])

    def __init__(self):
        super().__init__()
        self.manager = BlockManager(self.BLOCKS, self.SIZE)
        self.pages = Pages([None] * (self.BLOCKS * self.SIZE))
        self.lists, self.known = {}, {}  # the tokens of each sequence; whether all their ids were given
        self.held = {}  # block -> all tokens up to its end, where it can be found
        self.freed = list(range(self.BLOCKS))  # by release

    def order(self):
        """The order in which free blocks are taken: those that cannot be found first, otherwise by release."""
        return sorted(self.freed, key=lambda block: block in self.held)  # sorted is stable

    def reusable(self, tokens):
        """How many of the first tokens lie in blocks that can be found: full ones, but not the last token."""
        count = 0
        while count + self.SIZE < len(tokens) and tuple(tokens[: count + self.SIZE]) in self.held.values():
            count += self.SIZE
        return count

    @rule(name=names, tokens=tokens)
    def add(self, name, tokens):
        if name in self.lists:
            refused(ValueError, f"'{name}' already", self.manager.add, name, tokens)
            return
        reused = self.manager.add(name, tokens)
        assert reused == self.reusable(tokens) == self.manager.length(name)
        self.lists[name], self.known[name] = tokens[:reused], True
        self.freed = [block for block in self.freed if block not in self.manager.table(name)]

    @rule(name=names, tokens=tokens)
    def begin(self, name, tokens):
        """As a prompt is taken: what is there is found, and the rest appended."""
        if name not in self.lists:
            self.add(name, tokens)
            self.append(name, tokens[len(self.lists[name]) :], True)

    @rule(name=names, child=names)
    def fork(self, name, child):
        if name not in self.lists or child in self.lists:
            refused((KeyError, ValueError), "sequence", self.manager.fork, name, child)
            return
        self.manager.fork(name, child)
        self.lists[child], self.known[child] = list(self.lists[name]), self.known[name]

    @rule(name=names)
    def free(self, name):
        if name not in self.lists:
            refused(KeyError, f"'{name}'", self.manager.free, name)
            return
        table = self.manager.table(name)
        self.manager.free(name)
        del self.lists[name], self.known[name]
        self.freed += [block for block in reversed(table) if not self.references(block)]

    @rule(name=names, tokens=tokens, named=st.booleans())
    def append(self, name, tokens, named):
        if name not in self.lists:
            refused(KeyError, f"'{name}'", self.manager.append, name, tokens)
            return
        table, old = self.manager.table(name), self.lists[name]
        new = [*old, *tokens]
        written = bool(tokens) and len(old) % self.SIZE != 0
        copied = written and self.references(table[-1]) > 1
        needed = -(-len(new) // self.SIZE) - len(table) + copied
        if needed > len(self.freed):
            before = state(self.manager, self.lists), exhaust(self.manager)
            with pytest.raises(OutOfBlocks, match=f"need {needed} blocks; {len(self.freed)} of {self.BLOCKS} are free"):
                self.manager.append(name, tokens if named else len(tokens))
            assert (state(self.manager, self.lists), exhaust(self.manager)) == before
            return
        taken = self.order()[:needed]
        step = self.manager.append(name, tokens if named else len(tokens))
        assert step.copies == ([(table[-1], taken[0])] if copied else [])
        assert self.manager.table(name) == (*(table[:-1] if copied else table), *taken)
        self.pages.take(step, tokens, self.SIZE)
        self.lists[name] = new
        self.known[name] = self.known[name] and (named or not tokens)
        self.freed = [block for block in self.freed if block not in taken]
        gone = {*taken, *([table[-1]] if written and not copied else [])}
        self.held = {block: prefix for block, prefix in self.held.items() if block not in gone}
        for end in range(self.SIZE, len(new) + 1, self.SIZE):
            if end > len(old) and self.known[name]:
                self.held[self.manager.table(name)[end // self.SIZE - 1]] = tuple(new[:end])

    @rule(name=names, length=st.integers(0, 12))
    def truncate(self, name, length):
        if name not in self.lists or length > len(self.lists[name]):
            refused((KeyError, ValueError), f"'{name}'", self.manager.truncate, name, length)
            return
        table = self.manager.table(name)
        self.manager.truncate(name, length)
        kept = self.manager.table(name)
        assert kept == table[: -(-length // self.SIZE)]
        self.lists[name] = self.lists[name][:length]
        self.freed += [block for block in reversed(table[len(kept) :]) if not self.references(block)]

    @precondition(lambda self: self.lists)
    @rule(data=st.data())
    def sample(self, data):
        """Two children of one parent, each with tokens of its own."""
        name = data.draw(st.sampled_from(sorted(self.lists)))
        for child in "cd":
            if child not in self.lists and name in self.lists:
                self.fork(name, child)
                self.append(child, data.draw(self.tokens), True)

    def references(self, block):
        return sum(block in self.manager.table(name) for name in self.lists)

    @invariant()
    def conserves(self):
        held = {block for name in self.lists for block in self.manager.table(name)}
        assert self.manager.free_blocks + len(held) == self.BLOCKS
        assert exhaust(self.manager) == self.order()  # so what is free can be taken, in that order
        assert not held & set(self.freed)

    @invariant()
    def counts_references(self):
        for block in range(self.BLOCKS):
            assert self.manager.references(block) == self.references(block)

    @invariant()
    def contents_are_those_of_plain_lists(self):
        for name, tokens in self.lists.items():
            assert self.manager.length(name) == len(tokens)
            assert len(self.manager.table(name)) == -(-len(tokens) // self.SIZE)
            assert self.pages.read(self.manager, name) == tokens


Machine.TestCase.settings = settings(max_examples=150, stateful_step_count=30)
TestEveryLaw = Machine.TestCase


def test_a_block_is_found_from_the_append_that_fills_it():
    manager = BlockManager(8, 4)
    manager.add("a")
    manager.append("a", [1, 2, 3])
    assert manager.add("b", [1, 2, 3, 4, 5]) == 0
    manager.append("a", [4])
    assert manager.add("c", [1, 2, 3, 4, 5]) == 4
    manager.append("a", 1)  # a token of unknown id
    manager.append("a", [5, 6, 7, 8])
    assert manager.add("d", [1, 2, 3, 4, 5, 6, 7, 8, 9]) == 4


def test_a_block_that_was_full_is_found_until_it_is_written_again():
    """Guesses fill a block, one of them is wrong: the block is cut back, and then holds other tokens."""
    manager = BlockManager(8, 4)
    manager.add("a")
    manager.append("a", [1, 2, 3, 4])
    manager.truncate("a", 3)
    assert manager.add("b", [1, 2, 3, 4, 5]) == 4  # nothing has been written yet
    assert manager.append("a", [9]).copies == [(0, 1)]  # so "b" keeps what it found
    manager.truncate("a", 3)
    manager.append("a", [8])
    assert manager.add("c", [1, 2, 3, 9, 5]) == 0
    assert manager.add("d", [1, 2, 3, 8, 5]) == 4


def test_truncate_frees_whole_blocks_and_knows_the_tokens_that_stay():
    manager = BlockManager(4, 2)
    manager.add("a")
    manager.append("a", [1, 2, 3, 4, 5, 6, 7])
    manager.truncate("a", 1)
    assert (manager.table("a"), manager.free_blocks) == ((0,), 3)
    manager.append("a", [2, 3])
    assert manager.add("b", [1, 2, 3]) == 2
    manager.truncate("a", 0)
    assert (manager.table("a"), manager.references(0)) == ((), 1)
    refused(ValueError, "length is 1; 'a' has 0 tokens", manager.truncate, "a", 1)


def test_what_two_computed_is_found_until_both_are_gone():
    manager = BlockManager(4, 2)
    for name in "ab":
        manager.add(name)
    for name in "ab":
        manager.append(name, [1, 2, 3])
    manager.free("a")
    manager.add("c")
    manager.append("c", 4)
    assert manager.add("d", [1, 2, 3]) == 2
    assert manager.table("d") == manager.table("b")[:1]


def test_equal_hashes_are_not_equal_prefixes(monkeypatch):
    monkeypatch.setattr(Prefix, "__hash__", lambda self: 7)
    monkeypatch.setattr("attnlab.paged.prefix.hash", lambda x: 7, raising=False)
    manager = BlockManager(8, 2)
    manager.add("a")
    manager.append("a", [1, 2, 5, 6, 9])
    assert manager.add("b", [3, 4, 5, 6, 9]) == 0
    manager.append("b", [3, 4, 0, 0, 9])
    assert manager.add("c", [3, 4, 5, 6, 9]) == 2  # 5, 6 lies in a block, but after other tokens
    assert manager.add("d", [1, 2, 5, 6, 9]) == 4


def test_long_prompts_computed_twice_are_compared_without_recursion():
    prompt = list(range(3000))
    manager = BlockManager(6002, 1)
    for name in "ab":
        manager.add(name)
    for name in "ab":
        manager.append(name, prompt)
    assert manager.add("c", prompt) == 2999


@pytest.mark.parametrize("tokens", [b"abc", range(3)])
def test_ids_are_any_integers(tokens):
    """And names anything hashable."""
    manager, name = BlockManager(4, 2), ("request", 7)
    manager.add(name)
    assert name in manager
    assert manager.append(name, tokens).slots == [0, 1, 2]
    assert manager.add("b", list(tokens)) == 2


def test_errors():
    refused(ValueError, "blocks is 0; it must be at least 1", BlockManager, 0, 4)
    refused(TypeError, r"block_size is 1\.5; it must be an integer", BlockManager, 4, 1.5)
    manager = BlockManager(4, 2)
    manager.add("a")
    refused(ValueError, "there is a sequence 'a' already", manager.add, "a")
    refused(ValueError, "there is a sequence 'a' already", manager.fork, "a", "a")
    for call, *rest in ((manager.table,), (manager.length,), (manager.free,), (manager.append, 1), (manager.fork, "c"),
                        (manager.truncate, 0)):
        refused(KeyError, "there is no sequence 'b'", call, "b", *rest)
    refused(ValueError, "tokens is -1; it must be at least 0", manager.append, "a", -1)
    for tokens in ("abc", [1.0], 2.5, None):
        refused(TypeError, r"tokens is .*; it must be a number of tokens or their ids", manager.append, "a", tokens)
    refused(ValueError, "block is 4; it must be less than 4", manager.references, 4)
    refused(OutOfBlocks, "9 more tokens of 'a' need 5 blocks; 4 of 4 are free", manager.append, "a", 9)
    assert manager.append("a", 8).slots == list(range(8))
