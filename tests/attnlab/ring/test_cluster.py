"""The Cluster: what is sent arrives, everything is counted, the clock is the model's, and nobody waits for ever."""

import math

import numpy as np
import pytest

import attnlab
from attnlab.ring import Cluster, Deadlock
from attnlab.ring.programs import all_reduce
from tests.support import refused


def shift(rank, x, times=1):
    """Everyone's array goes to the next rank, ``times`` times."""
    for _ in range(times):
        rank.send(x, to=(rank.index + 1) % rank.size)
        (x,) = yield rank.receive((rank.index - 1) % rank.size)
    return x


def numbers(devices, size=1):
    return [np.full(size, index, np.float32) for index in range(devices)]


def test_arrays_go_round():
    cluster = Cluster(4)
    assert [int(x[0]) for x in cluster.run(shift, numbers(4), times=3)] == [1, 2, 3, 0]
    assert cluster.bytes == 4 * 3 * 4
    assert cluster.links == {(r, (r + 1) % 4): 12 for r in range(4)}
    assert cluster.steps == {0: 16, 1: 16, 2: 16}
    assert [(m.source, m.to, m.step, m.bytes) for m in cluster.messages[:2]] == [(0, 1, 0, 4), (1, 2, 0, 4)]
    cluster.run(shift, numbers(4))
    assert cluster.bytes == 4 * 4 * 4
    assert cluster.steps[0] == 32


def test_messages_keep_their_order_and_their_numbers():
    """What is sent is a copy; the messages of a link arrive in order, several arrays in one message together."""

    def program(rank, x):
        if rank.index == 0:
            rank.send(x, 2 * x, to=1)
            x += 10
            rank.send(x, to=1)
            return x
        first, twice = yield rank.receive(0)
        (second,) = yield rank.receive(0)
        return [int(y[0]) for y in (first, twice, second)]

    assert Cluster(2).run(program, [np.ones(1), np.ones(1)])[1] == [1, 2, 11]


def test_a_plain_function_is_a_program_too():
    assert Cluster(3).run(lambda rank, x: rank.index + int(x[0]), numbers(3)) == [0, 2, 4]
    assert Cluster(1).run(shift, numbers(1), times=0)[0] == [0]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("devices", [1, 2, 3, 5])
def test_all_reduce(devices, size):
    random = np.random.default_rng(0)
    x = [random.normal(size=(1, size)).astype(np.float32) for _ in range(devices)]
    for operation, expected in ((np.add, sum(x)), (np.maximum, np.max(x, axis=0))):
        cluster, again = (Cluster(devices, latency=1e-6, bandwidth=1e9) for _ in range(2))
        for one in (cluster, again):
            outs = one.run(lambda rank, x, operation=operation: all_reduce(rank, x, operation), x)
        assert (cluster.messages, cluster.time) == (again.messages, again.time)  # the same every time
        np.testing.assert_allclose(outs[0], expected, atol=1e-5)
        assert all((out == outs[0]).all() for out in outs)
        assert cluster.bytes == 2 * (devices - 1) * 4 * size
        assert max(cluster.steps, default=0) <= 2 * (devices - 1)


def test_the_clock_is_that_of_the_model():
    """A message of 1,000 bytes takes 2 + 1,000 / 500 = 4 seconds, and two on a link do not overlap but for latency."""

    def program(rank, x):
        if rank.index == 0:
            rank.compute(30)  # 3 seconds
            rank.send(x, to=1)  # 3 to 7
            rank.send(x, to=1)  # the link is free at 5: to 9
            rank.send(x, to=2)  # another link: 3 to 7
            return
        rank.compute(10)
        yield rank.receive(0)
        if rank.index == 1:
            yield rank.receive(0)
            rank.compute(10)

    cluster = Cluster(3, latency=2, bandwidth=500, rate=10)
    cluster.run(program, [np.zeros(1000, np.int8)] * 3)
    assert [(m.to, m.start, m.end) for m in cluster.messages] == [(1, 3, 7), (1, 5, 9), (2, 3, 7)]
    assert [rank.time for rank in cluster.ranks] == [3, 10, 7]
    assert cluster.time == 10
    assert [(w.rank, w.flops, w.start, w.end) for w in cluster.work][-1] == (1, 10, 9, 10)


def test_links_may_differ():
    """Two nodes of two ranks: a network between them that is ten times as slow."""

    def beside(fast, slow):
        return lambda source, to: fast if source // 2 == to // 2 else slow

    cluster = Cluster(4, latency=beside(0, 1), bandwidth=beside(100, 10))
    cluster.run(shift, [np.zeros(100, np.int8)] * 4)
    assert [m.end - m.start for m in cluster.messages] == [1, 11, 1, 11]


@pytest.mark.parametrize(("bandwidth", "seconds"), [(math.inf, 4), (200, 4), (100, 4), (50, 7), (25, 13)])
def test_sending_hides_behind_computing(bandwidth, seconds):
    """Four steps of a second, three transfers of 100 / bandwidth: the longer of the two is what a step takes."""

    def program(rank, x):
        for step in range(rank.size):
            if step < rank.size - 1:
                rank.send(x, to=(rank.index + 1) % rank.size)
            rank.compute(1)
            if step < rank.size - 1:
                (x,) = yield rank.receive((rank.index - 1) % rank.size)

    cluster = Cluster(4, bandwidth=bandwidth, rate=1)
    cluster.run(program, [np.zeros(100, np.int8)] * 4)
    assert cluster.time == seconds


def test_work_is_counted_with_its_step():
    """Visible pairs of one head; two operations for each of D + Dv numbers, pair, head and example."""
    query, key, value = np.ones((2, 4, 3, 8)), np.ones((2, 2, 5, 8)), np.ones((2, 2, 5, 6))

    def program(rank):
        rank.send(query, to=1 - rank.index)
        yield rank.receive(1 - rank.index)
        return rank.attend(query, key, value, causal=True, offset=rank.index)

    cluster = Cluster(2, rate=1000)
    outs = cluster.run(program)
    assert [(w.rank, w.step, w.pairs, w.flops) for w in cluster.work] == [
        (0, 1, 6, 2 * 6 * 14 * 8),
        (1, 1, 9, 2 * 9 * 14 * 8),
    ]
    assert cluster.time == 2 * 9 * 14 * 8 / 1000
    expected = attnlab.tiled_attention(query, key, value, causal=True, offset=1, return_lse=True)
    for found, wanted in zip(outs[1], expected):
        np.testing.assert_array_equal(found, wanted)


def test_a_deadlock_names_who_waits_for_whom():
    """Sent to the right and awaited from the right: with three ranks nobody is served, and with two everybody."""

    def wrong(rank, x):
        rank.send(x, to=(rank.index + 1) % rank.size)
        (x,) = yield rank.receive((rank.index + 1) % rank.size)
        return x

    with pytest.raises(Deadlock, match=r"^deadlock: rank 0 waits for rank 1; rank 1 waits for rank 2; rank 2"):
        Cluster(3).run(wrong, numbers(3))
    assert [int(x[0]) for x in Cluster(2).run(wrong, numbers(2))] == [1, 0]


def test_a_deadlock_names_who_has_ended():
    def first_leaves(rank):
        if rank.index:
            yield rank.receive(0)

    with pytest.raises(Deadlock, match="rank 1 waits for rank 0; rank 2 waits for rank 0; rank 0 has ended"):
        Cluster(3).run(first_leaves)

    def one_does_not_compare(rank):
        if rank.index:
            yield rank.agree("x")

    with pytest.raises(Deadlock, match="rank 1 waits for all ranks to compare their arguments; rank 0 has ended"):
        Cluster(2).run(one_does_not_compare)


def test_a_message_nobody_received():
    def needless(rank, x):
        rank.send(x, to=(rank.index + 1) % rank.size)

    cluster = Cluster(2)
    refused(RuntimeError, "rank 0 sent rank 1 1 message that it never received", cluster.run, needless, numbers(2))
    assert [int(x[0]) for x in cluster.run(shift, numbers(2))] == [1, 0]  # it is gone


def test_ranks_that_disagree():
    def program(rank, words):
        yield rank.agree(words)
        return (yield from shift(rank, np.ones(1)))

    assert len(Cluster(3).run(program, ["a"] * 3)) == 3
    refused(ValueError, r"^the ranks disagree: rank 0 has a; rank 2 has b$", Cluster(3).run, program, ["a", "a", "b"])


def test_an_error_says_whose_it_is():
    def program(rank):
        yield rank.agree("")
        if rank.index == 1:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        Cluster(3).run(program)
    assert caught.value.__notes__ == ["in the program of rank 1"]


@pytest.mark.parametrize(("error", "act", "message"), [
    (ValueError, lambda rank: rank.send(np.ones(1), to=0), "to is 0; rank 0 of 3 exchanges with the other ranks"),
    (ValueError, lambda rank: rank.send(np.ones(1), to=3), "to is 3; rank 0 of 3"),
    (ValueError, lambda rank: rank.receive(-1), "source is -1; rank 0 of 3"),
    (TypeError, lambda rank: rank.send([1.0], to=1), "rank 0 sends a list; it must be a NumPy array"),
])  # fmt: skip
def test_exchanges_that_are_refused(error, act, message):
    refused(error, message, act, Cluster(3).ranks[0])


def test_what_a_program_may_yield():
    def program(rank):
        yield np.ones(1)

    refused(TypeError, r"rank 0 yielded array.*yields rank.receive\(source\) or rank.agree", Cluster(2).run, program)


def test_errors_of_a_run():
    refused(ValueError, r"shards\[1\] has 2 items; there are 3 ranks", Cluster(3).run, shift, numbers(3), numbers(2))
    refused(ValueError, "devices is 0; it must be at least 1", Cluster, 0)
