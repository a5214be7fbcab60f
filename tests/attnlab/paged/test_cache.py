"""The paged cache: what sequences read is what was written for them, whoever shares their pages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attnlab.paged import BlockManager, PagedCache, paged_attention
from tests.support import oracle, refused
from tests.support.libraries import LIBRARIES, back, to

HK, D, DV, SIZE = 2, 8, 4, 4


class Sequences:
    """A cache, and beside it a plain list of keys and values for each sequence."""

    def __init__(self, library, blocks=16, size=SIZE, window=None):
        self.library, self.random = library, np.random.default_rng(0)
        cache = PagedCache.empty(*(to(library, np.zeros((HK, 1, x), np.float32)) for x in (D, DV)), blocks, size)
        self.cache = PagedCache(cache.key_pages, cache.value_pages, BlockManager(blocks, size, window))
        self.lists = {}

    def add(self, name, tokens=()):
        """Begin a sequence with what is there of its tokens."""
        reused = self.cache.manager.add(name, tokens)
        owner = next((self.lists[n] for n in self.lists if self.cache.manager.table(n)[:1] ==
                      self.cache.manager.table(name)[:1]), None) if reused else None  # fmt: skip
        self.lists[name] = [x[:, :reused] for x in owner] if owner else [np.zeros((HK, 0, x)) for x in (D, DV)]
        return reused

    def fork(self, name, child):
        self.cache.manager.fork(name, child)
        self.lists[child] = list(self.lists[name])

    def append(self, name, tokens, poison=None):
        """Write new tokens with random keys and values; returns the copies."""
        step = self.cache.manager.append(name, tokens)
        new = [self.random.normal(size=(HK, len(step.slots), x)).astype(np.float32) for x in (D, DV)]
        new = new if poison is None else [np.full_like(x, poison) for x in new]
        self.cache = self.cache.copy(step.copies).write(step.slots, *(to(self.library, x) for x in new))
        self.lists[name] = [np.concatenate(pair, 1) for pair in zip(self.lists[name], new)]
        return step.copies

    def check(self, names, n=1, **options):
        """What queries of some sequences see equals attention over the lists."""
        query = self.random.normal(size=(len(names), 2 * HK, n, D)).astype(np.float32)
        out, lse = self.cache.attend(to(self.library, query), list(names), return_lse=True, **options)
        for found, found_lse, q, name in zip(back(out), back(lse), query, names):
            expected = oracle.attention(q, *self.lists[name], causal=True, **options)
            np.testing.assert_allclose(found, expected.out, atol=2e-6)
            np.testing.assert_allclose(found_lse, expected.lse, atol=2e-6)


@pytest.mark.parametrize("library", LIBRARIES)
def test_sequences_read_what_was_written_for_them(library):
    here = Sequences(library)
    for name, count in (("a", 6), ("b", 3), ("c", 0)):
        here.add(name)
        here.append(name, count)
    here.check("abc")
    here.append("b", 6)
    here.append("a", 1)
    here.check("ba", n=2)
    here.check(["b"], n=3, window=(2, 0), scale=0.7)
    here.cache.manager.free("a")
    here.add("d")
    here.append("d", 13)  # takes blocks of "a" as well, among others
    here.check("dbc")


@pytest.mark.parametrize("poison", [1e4, np.nan])
@pytest.mark.parametrize("prompt", [3, 4, 5])
@pytest.mark.parametrize("library", LIBRARIES)
def test_siblings_do_not_see_each_other(library, prompt, poison):
    """Samples of one prompt, around a block: what one writes no other reads."""
    here = Sequences(library)
    here.add("a")
    here.append("a", prompt)
    here.fork("a", "b")
    here.fork("a", "c")
    copies = here.append("b", 1, poison) + here.append("a", 1)
    here.check("ac")
    copies += here.append("c", 2)
    here.check("ac")
    assert len(copies) == (2 if prompt % SIZE else 0)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_prefix_is_read_where_it_lies(library):
    here, prompt = Sequences(library), list(range(10))
    here.add("a", prompt)
    here.append("a", prompt)
    assert here.add("b", prompt[:9]) == 8
    here.append("b", prompt[8:9])
    here.check("ab")
    assert here.cache.manager.free_blocks == 16 - 4


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_batch_is_written_at_once(library):
    """Steps of several sequences together: copies first, then slots (B, C)."""
    one, other = Sequences(library), Sequences(library)
    for here in (one, other):
        for name in "ab":
            here.add(name)
            here.append(name, 3)
    steps = [one.cache.manager.append(name, 2) for name in "ab"]
    key, value = (one.random.normal(size=(2, HK, 2, x)).astype(np.float32) for x in (D, DV))
    copies = [pair for step in steps for pair in step.copies]
    slots = np.array([step.slots for step in steps])
    for given in (slots.tolist(), to(library, slots.astype(np.int32))):
        one.cache = one.cache.copy(copies).write(given, to(library, key), to(library, value))
    for b, name in enumerate("ab"):
        one.lists[name] = [np.concatenate([x, new[b]], 1) for x, new in zip(one.lists[name], (key, value))]
    one.check("ab", n=2)


@pytest.mark.parametrize("library", LIBRARIES)
def test_any_split_gives_the_same_rows(library):
    random = np.random.default_rng(1)
    arrays = [random.normal(size=(1, HK, 9, x)).astype(np.float32) for x in (D, D, DV)]
    rows = []
    for size in (2, 5, 9):
        here = Sequences(library)
        here.add("a")
        outs = []
        for start in range(0, 9, size):
            query, key, value = (to(library, x[:, :, start : start + size]) for x in arrays)
            step = here.cache.manager.append("a", key.shape[-2])
            here.cache = here.cache.copy(step.copies).write([step.slots], key, value)
            outs.append(back(here.cache.attend(query, ["a"])))
        rows.append(np.concatenate(outs, -2))
    for other in rows[1:]:
        np.testing.assert_allclose(other, rows[0], atol=1e-6)


@pytest.mark.parametrize("library", LIBRARIES)
def test_state_comes_out(library):
    here = Sequences(library)
    here.add("a")
    before, pages = here.cache, here.cache.key_pages
    here.append("a", 5)
    assert (here.cache is before) == (library != "jax")
    assert (pages is here.cache.key_pages) == (library != "jax")
    assert np.isfinite(back(pages)).any() == (library != "jax")
    assert here.cache.manager is before.manager
    assert here.cache.nbytes == 16 * HK * SIZE * (D + DV) * 4
    assert here.cache.copy([]) is here.cache


def test_jax_writes_in_place_where_the_cache_is_donated():
    here = Sequences("jax")
    here.add("a")
    step = here.cache.manager.append("a", 5)
    new = [jnp.ones((HK, 5, x)) for x in (D, DV)]
    write = jax.jit(PagedCache.write, donate_argnums=0)
    lowered = write.lower(here.cache, jnp.array(step.slots), *new)
    assert lowered.compile().memory_analysis().alias_size_in_bytes == here.cache.nbytes
    assert [x.shape for x in jax.tree.leaves(here.cache)] == [(16, HK, SIZE, D), (16, HK, SIZE, DV)]
    cache = write(here.cache, jnp.array(step.slots), *new)
    here.cache, here.lists["a"] = cache, [np.ones((HK, 5, x)) for x in (D, DV)]
    here.check(["a"])


def test_names_are_not_looked_up_while_tracing():
    here = Sequences("jax")
    here.add("a")
    here.append("a", 5)
    query = jnp.ones((1, HK, 1, D))
    with pytest.raises(TypeError, match=r"key_pages is traced, .* make cache\.tables\(names\) outside"):
        jax.jit(lambda cache: cache.attend(query, ["a"]))(here.cache)
    attend = jax.jit(lambda cache, *tables: paged_attention(query, cache.key_pages, cache.value_pages, *tables))
    out = attend(here.cache, *here.cache.tables(["a"]))
    np.testing.assert_allclose(out, here.cache.attend(query, ["a"]), atol=1e-6)


@pytest.mark.parametrize("library", LIBRARIES)
def test_tables_have_few_shapes(library):
    here = Sequences(library)
    for name, count in (("a", 20), ("b", 3)):
        here.add(name)
        here.append(name, count)
    table, lengths = here.cache.tables(["a", "b"])
    assert back(lengths).tolist() == [20, 3]
    assert back(table).tolist() == [[0, 1, 2, 3, 4, 0, 0, 0], [5, 0, 0, 0, 0, 0, 0, 0]]
    assert tuple(here.cache.tables(["b"])[0].shape) == (1, 1)
    assert tuple(here.cache.tables([])[0].shape) == (0, 1)


@pytest.mark.parametrize("library", LIBRARIES)
def test_errors(library):
    def zeros(*shape, kind="float32"):
        return to(library, np.zeros(shape, kind))

    refused(TypeError, "key is of type list", PagedCache.empty, [1.0], [1.0], 4, 4)
    with pytest.raises(ValueError, match=r"key has shape \(3, 4\); it must be \(\.\.\., Hk, C, size\)"):
        PagedCache.empty(zeros(3, 4), zeros(3, 4), 4, 4)
    refused(ValueError, r"value has shape \(3, 1, 4\)", PagedCache.empty, zeros(2, 1, 4), zeros(3, 1, 4), 4, 4)
    with pytest.raises(TypeError, match="value has dtype float16, key has float32"):
        PagedCache.empty(zeros(2, 1, 4), zeros(2, 1, 4, kind="float16"), 4, 4)
    with pytest.raises(TypeError, match="key has dtype int32"):
        PagedCache.empty(zeros(2, 1, 4, kind="int32"), zeros(2, 1, 4, kind="int32"), 4, 4)
    refused(ValueError, "block_size is 0", PagedCache.empty, zeros(2, 1, 4), zeros(2, 1, 4), 4, 0)
    cache = PagedCache.empty(zeros(2, 1, 8), zeros(2, 1, 4), 4, 4)
    new = zeros(2, 3, 8), zeros(2, 3, 4)
    refused(ValueError, r"slots reach from 0 to 16; they must lie in 0 … 15", cache.write, [0, 1, 16], *new)
    refused(ValueError, r"slots reach from -1 to 1", cache.write, [0, 1, -1], *new)
    refused(TypeError, "slots is of dtype float32", cache.write, zeros(3), *new)
    with pytest.raises(ValueError, match=r"key has shape \(2, 3, 8\); with slots \(2,\) it must be \(2, 2, 8\)"):
        cache.write([0, 1], *new)
    with pytest.raises(ValueError, match=r"value has shape \(2, 3, 8\); with slots \(3,\) it must be \(2, 3, 4\)"):
        cache.write([0, 1, 2], new[0], new[0])
    with pytest.raises(TypeError, match="value has dtype float16, the pages have float32; they must be equal"):
        cache.write([0, 1, 2], new[0], zeros(2, 3, 4, kind="float16"))
    refused(KeyError, "there is no sequence 'z'", cache.attend, zeros(1, 2, 1, 8), ["z"])
