"""One setting, the project's address, fills all links to it; without it they are absent, and no hole is seen."""

import pytest

from tests.support import ROOT


@pytest.fixture
def addresses(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "notebooks/book")
    import addresses

    return addresses


def test_without_an_address_nothing_is_linked(addresses, monkeypatch):
    monkeypatch.setattr(addresses, "urls", dict)
    text = addresses.foot("03_online_softmax", "03 · Online softmax")
    assert "href" not in text
    assert "@misc{attnlab-03-online-softmax" in text
    assert "url" not in text
    assert addresses.install().splitlines()[1].startswith("make lab")


def test_an_address_fills_every_link(addresses, monkeypatch):
    monkeypatch.setattr(addresses, "urls", lambda: {"Source": "https://example.org/people/attnlab"})
    text = addresses.foot("03_online_softmax", "03 · Online softmax")
    assert text.count("<a href=") == 5
    for place in (
        "github/people/attnlab/blob/main/notebooks/03_online_softmax.ipynb",
        "gh/people/attnlab/main?urlpath=lab/tree/work/03_online_softmax.ipynb",
        "https://example.org/people/attnlab/edit/main/notebooks/lessons/03_online_softmax.md",
        "https://example.org/people/attnlab/issues/new?title=03_online_softmax",
    ):
        assert place in text
    assert "url    = {https://example.org/people/attnlab}" in text
    assert "git clone https://example.org/people/attnlab && cd attnlab\nmake lab" in addresses.install()
