"""The box around a page's keys: no key of the page has a product beyond it, and what is empty has no part in it."""

import jax
import numpy as np
import pytest

from attnlab.paged import page_bounds
from tests.support import refused
from tests.support.libraries import LIBRARIES, back, to

RNG = np.random.default_rng(24)
PAGES = RNG.normal(size=(6, 2, 5, 3)).astype(np.float32)
COUNTS = np.array([5, 1, 3, 4, 2, 0], np.int32)


@pytest.mark.parametrize("library", LIBRARIES)
def test_no_product_exceeds_the_bound_and_a_corner_reaches_it(library):
    low, high = (back(x).astype(np.float64) for x in page_bounds(to(library, PAGES)))
    for q in RNG.normal(size=(20, 3)):
        bound = np.maximum(q * low, q * high).sum(-1)
        assert (PAGES.astype(np.float64) @ q <= bound[..., None] + 1e-9).all()
    one = back(page_bounds(to(library, PAGES[:, :, :1]))[1])
    np.testing.assert_array_equal(one, PAGES[:, :, 0])


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("filler", [np.nan, 1e9, -1e9])
def test_empty_slots_have_no_part(library, filler):
    pages = PAGES.copy()
    for page, count in zip(pages, COUNTS):
        page[:, count:] = filler
    low, high = (back(x) for x in page_bounds(to(library, pages), to(library, COUNTS)))
    for p, count in enumerate(COUNTS[:-1]):
        np.testing.assert_array_equal(low[p], PAGES[p, :, :count].min(-2))
        np.testing.assert_array_equal(high[p], PAGES[p, :, :count].max(-2))
    assert (low[-1] == np.inf).all()
    assert (high[-1] == -np.inf).all()
    assert (back(page_bounds(to(library, pages), COUNTS.tolist())[0]) == low).all()


def test_traced_counts():
    found = jax.jit(page_bounds)(PAGES, COUNTS)
    for x, y in zip(found, page_bounds(PAGES, COUNTS)):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_does_not_fit_is_refused(library):
    pages = to(library, PAGES)
    refused(ValueError, "key_pages has shape", page_bounds, pages[0])
    refused(TypeError, "key_pages", page_bounds, to(library, PAGES.astype(np.int32)))
    with pytest.raises(ValueError, match=r"counts is int32 of shape \(5,\); it must be integers, one for each of"):
        page_bounds(pages, to(library, COUNTS[:5]))
    refused(ValueError, "counts is float32", page_bounds, pages, to(library, COUNTS.astype(np.float32)))
