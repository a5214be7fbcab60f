"""Lesson 12, ★★: how many programs a grid has, and how well they fill the multiprocessors."""

from collections.abc import Callable

from attnlab.check.exercise import Case, Exercise, Mistake

Counts = tuple[int, int, int]


def grid_waves(batch: int, heads: int, n: int, block_q: int, sms: int) -> Counts:
    """(programs, waves, idle) of a grid on sms multiprocessors, one program each; idle: slots left empty in the end."""
    programs = batch * heads * -(-n // block_q)
    waves = -(-programs // sms)
    return programs, waves, waves * sms - programs


def cases() -> list[Case]:
    """Even and uneven divisions, and the sizes of section 4."""
    calls = [
        ("ONE: one program, one multiprocessor", (1, 1, 4, 4, 1)),
        ("two blocks of queries on two multiprocessors", (1, 1, 8, 4, 2)),
        ("RAGGED: 9 queries in blocks of 4", (1, 1, 9, 4, 3)),
        ("two heads, three sequences, blocks of 4 for 12 queries, on 5 multiprocessors", (3, 2, 12, 4, 5)),
        ("fewer programs than multiprocessors", (2, 3, 16, 16, 108)),
        ("one query, as in decoding: 32 heads", (1, 32, 1, 128, 108)),
        ("exactly two waves", (1, 27, 1024, 128, 108)),
        ("an A100, batch 1, 16 heads of 16384 queries", (1, 16, 16384, 128, 108)),
        ("an H100, batch 4, 16 heads of 4000 queries, ragged", (4, 16, 4000, 128, 132)),
    ]
    return [Case(label, args) for label, args in calls]


def of(
    programs: Callable[[int, int, int, int], int], waves: Callable[[int, int], int] = lambda p, s: -(-p // s),
    idle: Callable[[int, int, int], float] = lambda p, w, s: w * s - p,
) -> Callable[..., tuple]:
    """A wrong answer: other programs, other waves, another count of idle slots."""

    def wrong(batch: int, heads: int, n: int, block_q: int, sms: int) -> tuple:
        p = programs(batch, heads, n, block_q)
        w = waves(p, sms)
        return p, w, idle(p, w, sms)

    return wrong


def right(batch: int, heads: int, n: int, block_q: int) -> int:
    """Eq. 12.1's number of programs."""
    return batch * heads * -(-n // block_q)


EXERCISE = Exercise(
    lesson="12", stars=2, reference=grid_waves, cases=cases,
    hints=(
        "One program for each block of queries of each head of each sequence, eq. 12.6.",
        "Round both quotients up: a short block is a program, and a wave that is not full takes its time. In integers, "
        "−(−a // b).",
        "waves · sms slots are offered, programs of them are used.",
    ),
    mistakes=(
        Mistake(
            "You round n / block_q down. The last, shorter block of queries needs a program as well: eq. 12.6.",
            of(lambda batch, heads, n, block_q: batch * heads * (n // block_q)),
            of(lambda batch, heads, n, block_q: batch * heads * max(n // block_q, 1)),
        ),
        Mistake(
            "Your grid has one program for each head of each sequence, as in the first FlashAttention. The blocks of "
            "queries are programs, too: eq. 12.6.",
            of(lambda batch, heads, n, block_q: batch * heads),
        ),
        Mistake(
            "You leave the heads out, or the batch: each pair of sequence and head has its own programs (eq. 12.6).",
            of(lambda batch, heads, n, block_q: batch * -(-n // block_q)),
            of(lambda batch, heads, n, block_q: heads * -(-n // block_q)),
            of(lambda batch, heads, n, block_q: -(-n // block_q)),
        ),
        Mistake(
            "You cut all queries of all heads as if they were one sequence. A block belongs to one head, so each head "
            "has a short block of its own: round up first, multiply then (eq. 12.6).",
            of(lambda batch, heads, n, block_q: -(-batch * heads * n // block_q)),
        ),
        Mistake(
            "You round the waves down. A wave that is not full takes as long as a full one: eq. 12.6.",
            of(right, lambda p, s: p // s),
            of(right, lambda p, s: p // s, lambda p, w, s: p % s),
            of(right, lambda p, s: p // s, lambda p, w, s: -p % s),
            of(right, lambda p, s: max(p // s, 1)),
        ),
        Mistake(
            "You add a wave to the quotient always. Where sms divides the programs the last wave is full and no other "
            "follows: round up instead (eq. 12.6).",
            of(right, lambda p, s: p // s + 1),
        ),
        Mistake(
            "Your idle slots are those that are busy in the last wave, programs mod sms. Idle are the others: waves · "
            "sms − programs (eq. 12.6).",
            of(right, idle=lambda p, w, s: p % s),
        ),
        Mistake(
            "You call a whole wave idle where the last one is full: sms − programs mod sms is sms there. waves · sms − "
            "programs is 0 (eq. 12.6).",
            of(right, idle=lambda p, w, s: s - p % s),
        ),
        Mistake(
            "Idle is asked as a number of slots, an integer; you return a share (eq. 12.6).",
            of(right, idle=lambda p, w, s: 1 - p / (w * s)),
            of(right, idle=lambda p, w, s: p / (w * s)),
        ),
    ),
)
