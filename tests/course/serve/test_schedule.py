"""Who is fed in a step: the budget, seniority, and who loses blocks to whom."""

from types import SimpleNamespace

from attnlab_course.serve import Sequence, num_unfed_tokens, schedule

from attnlab.paged import BlockManager


def sequences(*lengths):
    """One sequence a request, of so many tokens, none of them alike."""
    found = []
    for index, length in enumerate(lengths):
        request = SimpleNamespace(index=index, sequences=[])
        request.sequences.append(Sequence(request, 0, [100 * index + i for i in range(length)]))
        found += request.sequences
    return found


def fed(plan):
    return [(chunk.sequence.request.index, chunk.start, len(chunk.tokens)) for chunk in plan.chunks]


def grow(*many):
    """The next token of each."""
    for one in many:
        one.tokens.append(7)


def test_prompts_share_what_decoding_leaves():
    manager, (a, b, c) = BlockManager(20, 4), sequences(5, 9, 3)
    assert fed(schedule([a, b, c], manager, 8)) == [(0, 0, 5), (1, 0, 3)]
    grow(a)
    assert fed(schedule([a, b, c], manager, 4)) == [(0, 5, 1), (1, 3, 3)]
    grow(a)
    assert fed(schedule([a, b, c], manager, 8)) == [(0, 6, 1), (1, 6, 3), (2, 0, 3)]
    assert [num_unfed_tokens(one, manager) for one in (a, b, c)] == [0, 0, 0]
    assert fed(schedule([a, b, c], manager, 8)) == []


def test_an_old_prompt_gets_a_token_however_many_decode():
    """Budget 2 and two that decode: the prompt before them goes on, one token a step."""
    manager, (a, b, c) = BlockManager(20, 4), sequences(9, 1, 1)
    schedule([b, c], manager, 2)
    grow(b, c)
    assert fed(schedule([a, b, c], manager, 2)) == [(0, 0, 1), (1, 1, 1)]
    assert fed(schedule([a, b, c], manager, 2)) == [(0, 1, 1), (2, 1, 1)]


def test_the_youngest_that_is_not_fed_loses_its_blocks():
    manager, (a, b, c) = BlockManager(4, 2), sequences(2, 4, 2)
    schedule([a, b, c], manager, 99)
    assert manager.free_blocks == 0
    grow(a, b, c)
    plan = schedule([a, b, c], manager, 99)
    assert (plan.preempted, fed(plan)) == ([c], [(0, 2, 1)])  # b waits, with its blocks
    assert (num_unfed_tokens(b, manager), num_unfed_tokens(c, manager)) == (1, 3)
    grow(a)
    assert fed(schedule([a, b, c], manager, 99)) == [(0, 3, 1)]
    manager.free(a)
    assert fed(schedule([b, c], manager, 99)) == [(1, 4, 1)]  # c needs two blocks, and one is free
    manager.free(b)
    assert fed(schedule([c], manager, 99)) == [(2, 0, 3)]  # its block was needed


def test_nobody_overtakes_one_that_does_not_fit():
    manager, (a, b, c) = BlockManager(4, 2), sequences(4, 6, 1)
    assert fed(schedule([a, b, c], manager, 99)) == [(0, 0, 4)]
    assert b not in manager
    assert manager.free_blocks == 2


def test_an_old_sequence_that_waits_takes_from_younger_ones():
    manager, (a, b, c) = BlockManager(4, 2), sequences(5, 4, 2)
    schedule([b, c], manager, 99)
    plan = schedule([a, b, c], manager, 99)
    assert (plan.preempted, fed(plan)) == ([c, b], [(0, 0, 5)])


def test_beams_that_wait_give_way_to_the_last_of_their_search():
    """Two beams in a pool for one: the first has said what it has to, and the other needs the blocks."""
    manager, (a, other) = BlockManager(2, 2), sequences(3, 1)
    b = Sequence(a.request, 1, [1, 2, 3])
    a.request.sequences.append(b)
    schedule([a, b, other], manager, 99)
    a.row = [0.0]
    assert num_unfed_tokens(a, manager) == 0
    plan = schedule([a, b, other], manager, 99)
    assert (plan.preempted, fed(plan)) == ([a], [(0, 0, 3)])
    assert num_unfed_tokens(a, manager) == 0


def test_a_prefix_that_is_written_in_the_same_step_is_shared():
    manager, (a, b) = BlockManager(9, 2), sequences(5, 5)
    b.tokens = [*a.tokens[:4], 9]
    plan = schedule([a, b], manager, 99)
    assert fed(plan) == [(0, 0, 5), (1, 4, 1)]
    assert manager.table(a)[:2] == manager.table(b)[:2]

