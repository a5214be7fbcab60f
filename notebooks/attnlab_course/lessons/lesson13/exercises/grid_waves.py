"""Lesson 13, ★★: how many programs a grid has, and how well they fill the multiprocessors."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def grid_waves(batch: int, heads: int, n: int, block_q: int, sms: int) -> tuple[int, int, int]:
    """(programs, waves, idle) of a grid on sms multiprocessors, one program each; idle: slots left empty in the end."""
    programs = batch * heads * -(-n // block_q)  # eq. 13.2
    waves = -(-programs // sms)
    return programs, waves, waves * sms - programs


BLOCKS, WAVES, IDLE = "-(-n // block_q)", "-(-programs // sms)", "waves * sms - programs"

EXERCISE = Exercise(
    lesson="13", stars=2, reference=grid_waves, where="eq. 13.2",
    cases=table(
        ("ONE: one program, one multiprocessor", 1, 1, 4, 4, 1),
        ("RAGGED: 11 queries in blocks of 4", 1, 1, 11, 4, 3),
        ("RAGGED: a last block of one query, the others have 1,048,576", 1, 1, 2**20 + 1, 2**20, 3),
        ("six programs on five multiprocessors", 1, 2, 12, 4, 5),
        ("fewer programs than multiprocessors", 2, 3, 16, 16, 108),
        ("exactly two waves", 1, 27, 1024, 128, 108),
        ("an A100, batch 1, 16 heads of 16384 queries", 1, 16, 16384, 128, 108),
        ("an H100, batch 4, 16 heads of 4000 queries, ragged", 4, 16, 4000, 128, 132),
    ),
    hints=(
        "One program for each block of queries of each head of each sequence, eq. 13.2.",
        "Round both quotients up: a short block needs a program, and a wave that isn't full still takes its time. In "
        "integers: −(−a // b).",
        "There are waves · sms slots, and each program uses one.",
    ),
    without=dict.fromkeys(
        ("batch", "heads", "batch * heads", "-(-n // block_q)"),
        "You leave out programs. Each head of each sequence has its own, one for each block of queries (eq. 13.2).",
    ),
    mistakes=(
        Mistake("You split the queries of all heads as if they were one sequence. A block belongs to one head, so each "
                "head has a short block of its own: round up first, then multiply (eq. 13.2).",
                but(f"batch * heads * {BLOCKS}", "-(-batch * heads * n // block_q)")),
        Mistake(phrases.not_rounded_up("eq. 13.2", what="programs, or of waves,"),
                *(but(BLOCKS, number) for number in ("(n // block_q)", "max(n // block_q, 1)", "round(n / block_q)")),
                but(WAVES, "programs // sms"), but(WAVES, "programs // sms", IDLE, "-programs % sms")),
        Mistake(phrases.adds_one("eq. 13.2", what="wave"), but(WAVES, "programs // sms + 1")),
        Mistake("You count the slots that are busy in the last wave, programs mod sms. The idle ones are the others: "
                "waves · sms − programs (eq. 13.2).",
                but(IDLE, "programs % sms")),
        Mistake("Where the last wave is full, you call a whole wave idle: sms − programs mod sms is sms there, but "
                "waves · sms − programs is 0 (eq. 13.2).",
                but(IDLE, "sms - programs % sms")),
    ),
)
