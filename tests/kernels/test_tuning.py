"""Tuning takes the fastest of few candidates and remembers it; without it the first runs; all give the same answers."""

import json

import pytest
import torch

from attnlab.call import Rules
from attnlab.geometry import Band
from tests.kernels.test_triton import LARGE, check, interpreter

with interpreter():
    from triton.runtime.errors import OutOfResources

    from attnlab.kernels.triton import backward, forward, tuning


pytestmark = pytest.mark.usefixtures("patched_once")
CHOICES = [{"BLOCK_Q": size, "num_warps": 4} for size in (128, 64, 32)]
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch, tmp_path):
    """No choice comes from the reader's files."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tuning.remembered.cache_clear()
    with interpreter():
        yield
    tuning.remembered.cache_clear()


def call(n=100, m=100, left=None, right=None, compared=(False, False), dropout=0.0, kind=torch.float16, **sizes):
    """What kind_of gets."""
    query = torch.zeros(n, 64, dtype=kind)
    band, sizes = Band(n, m, left, right), (sizes.get("block_q"), sizes.get("block_k"))
    return query, query, compared, Rules(1.0, band, dropout, (2, 3, 1)), sizes


class Clock:
    """In the place of tuning.milliseconds: ``times`` of the candidates in turn; None: there is no room for it."""

    def __init__(self, monkeypatch, *times):
        self.times, self.ran = list(times), 0
        monkeypatch.setattr(tuning, "milliseconds", self)

    def __call__(self, run):
        self.ran += 1
        taken = self.times[(self.ran - 1) % len(self.times)]
        if taken is None:
            raise OutOfResources(200_000, 100_000, "shared memory")
        run()
        return taken


def chosen(*arguments, choices=CHOICES):
    """The choice for a call of a kernel."""
    return tuning.fastest("fold", call(*arguments), choices, lambda choice: None)


def test_the_fastest_is_taken_and_remembered(monkeypatch):
    clock = Clock(monkeypatch, 3.0, 1.0, 2.0)
    assert chosen() == chosen() == CHOICES[1]
    assert clock.ran == 3


def test_another_process_reads_it(monkeypatch):
    clock = Clock(monkeypatch, 3.0, 2.0, 1.0)
    chosen()
    tuning.remembered.cache_clear()
    assert chosen() == CHOICES[2]
    assert clock.ran == 3


def test_what_cannot_run_is_left_out(monkeypatch):
    Clock(monkeypatch, 3.0, None, 2.0)
    assert chosen() == CHOICES[2]


def test_where_nothing_can_run_the_first_is_left_to_say_so(monkeypatch):
    Clock(monkeypatch, None)
    assert chosen() == CHOICES[0]


@pytest.mark.parametrize("text", ["", "{", "[]", "\udcff", "{KIND: 3}", '{KIND: {"BLOCK_Q": 256, "num_warps": 4}}'])
def test_a_broken_or_old_file_is_ignored(monkeypatch, text):
    path = tuning.cache_file(CPU)
    path.parent.mkdir()
    kind = repr(("fold", *tuning.kind_of(call())))
    path.write_text(text.replace("KIND", json.dumps(kind)), encoding="utf-8", errors="surrogateescape")
    clock = Clock(monkeypatch, 3.0, 1.0, 2.0)
    assert chosen() == CHOICES[1]
    assert clock.ran == 3
    assert json.loads(path.read_text())[kind] == CHOICES[1]


def test_where_no_file_can_be_written_the_process_remembers(monkeypatch, tmp_path):
    (tmp_path / "attnlab").write_text("a file where the folder would be")
    clock = Clock(monkeypatch, 3.0, 1.0, 2.0)
    assert chosen() == chosen() == CHOICES[1]
    assert clock.ran == 3


def test_the_file_is_that_of_the_sources(monkeypatch):
    before = tuning.cache_file(CPU)
    monkeypatch.setattr(tuning, "SOURCES", tuning.SOURCES[1:])
    tuning.source_hash.cache_clear()
    assert tuning.cache_file(CPU) != before
    tuning.source_hash.cache_clear()


def test_kinds_of_calls():
    """Lengths that differ by less than a power of two are of one kind; what the kernel is compiled for is not."""
    kinds = [
        tuning.kind_of(call(*given, **named)) for given, named in [
            ((), {}), ((200,), {}), ((100, 200), {}), ((100, 100, None, 0), {}), ((100, 100, 5, 0), {}),
            ((), {"compared": (True, False)}), ((), {"compared": (False, True)}), ((), {"dropout": 0.1}),
            ((), {"kind": torch.bfloat16}), ((), {"block_q": 32}), ((), {"block_k": 32}),
        ]
    ]  # fmt: skip
    assert len(set(kinds)) == len(kinds)
    assert tuning.kind_of(call(128, 65)) == kinds[0] != tuning.kind_of(call(129))
    assert [tuning.rounded(x) for x in (-3, 0, 1, 2, 3, 4, 5)] == [0, 0, 1, 2, 4, 4, 8]


@pytest.mark.parametrize(("asked", "device", "recording", "expected"), [
    ("1", "cuda", False, True), ("1", "cuda", True, False), ("1", "cpu", False, False), ("", "cuda", False, False),
])  # fmt: skip
def test_off_unless_asked_for(monkeypatch, asked, device, recording, expected):
    monkeypatch.setenv("ATTNLAB_AUTOTUNE", asked)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: recording)
    assert tuning.enabled(torch.device(device)) is expected


def test_a_call_that_is_tuned(monkeypatch):
    """All three kernels are; the last candidate wins, and the answers are the oracle's."""
    monkeypatch.setattr(tuning, "enabled", lambda device: True)
    Clock(monkeypatch, *range(9, 0, -1))
    check(LARGE["float16"])
    known = json.loads(tuning.cache_file(CPU).read_text())
    assert [kind.split("'")[1] for kind in known] == ["fold", "query_gradient", "key_gradient"]


FULL = [pytest.param(name, marks=pytest.mark.full) for name in ("bfloat16", "packed documents, causal")]


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("name", ["float16", *FULL])
def test_candidates_agree(monkeypatch, name, at):
    """Those with tiles of their own; the first is what all other tests run."""

    def run_one(kernel, call, tiles, width, scores, run):
        choices = tuning.candidates(call, tiles, width, scores)
        assert len(choices) <= 5
        assert choices[0] not in choices[1:]
        run(choices[min(at, len(choices) - 1)])

    for module in (forward, backward):
        monkeypatch.setattr(module, "run_tuned", run_one)
    check(LARGE[name])
