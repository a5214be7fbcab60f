"""Lesson 09, ★: standard attention and FlashAttention on one chip."""

from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def bytes_moved(N: int, D: int, sram_bytes: int, itemsize: int) -> tuple[int, int]:
    """Bytes moved by the forward of (standard attention, FlashAttention), a tuple of two integers; without fills."""
    M_sram = sram_bytes // itemsize
    Bc = -(-M_sram // (4 * D))  # eq. 8.7
    passes = -(-N // Bc)  # eq. 9.1
    standard = 4 * N * N + 4 * N * D  # eq. 9.5
    flash = 2 * N * D + passes * (3 * N * D + 4 * N)  # eq. 9.4
    return itemsize * standard, itemsize * flash


BLOCK, STANDARD, FLASH = "-(-M_sram // (4 * D))", "4 * N * N + 4 * N * D", "2 * N * D + passes * (3 * N * D + 4 * N)"

EXERCISE = Exercise(
    lesson="09", stars=1, reference=bytes_moved, where="eqs. 9.4 and 9.5",
    cases=table(
        ("N = 4, D = 1, 8 bytes of SRAM, 1 byte a number: M_sram = 8, two keys in a block", 4, 1, 8, 1),
        ("the same in 2-byte numbers: M_sram = 4, one key in a block", 4, 1, 8, 2),
        ("RAGGED: N = 7, D = 2, M_sram = 24: three keys in a block", 7, 2, 48, 2),
        ("M_sram = 25, 4D = 8: the block is rounded up, to four keys", 12, 2, 25, 1),
        ("51 bytes of 2-byte numbers: M_sram = 25", 12, 2, 51, 2),
        ("17 bytes of 2-byte numbers: M_sram = 8, two keys in a block", 8, 1, 17, 2),
        ("19 bytes of 4-byte numbers: M_sram = 4, one key in a block", 8, 1, 19, 4),
        ("M_sram = 20, 4D = 8: three keys in a block, seven passes", 20, 2, 20, 1),
        ("a small SRAM: N = 256, D = 16, M_sram = 128: FlashAttention moves more", 256, 16, 512, 4),
        ("a large SRAM: N = 8, D = 2, M_sram = 400: all scores would fit, and cross all the same", 8, 2, 400, 1),
        ("one head of Figure 2: 192 KB, half precision", 1024, 64, 192 * 1024, 2),
        ("N = 32,000, D = 128, 192 KB, half precision", 32_000, 128, 192 * 1024, 2),
    ),
    hints=(
        "Which of the two laws of this lesson knows the size of SRAM, and through which quantity?",
        "Standard attention is eq. 9.5, whatever the SRAM; FlashAttention is eq. 9.4. M_sram counts elements.",
        "Round up twice, for Bc = ⌈M_sram / 4D⌉ and for the passes: -(-a // b). Multiply by itemsize at the end.",
    ),
    without={"4 * N * D": "You leave out Q, K, V or O of standard attention. Each crosses once: 4ND (eq. 9.5)."},
    mistakes=(
        Mistake("You let the SRAM help standard attention. Its S and P are written to HBM and read back whole, in "
                "small pieces or in large ones: eq. 9.5 has no M_sram.",
                but(STANDARD, f"({STANDARD}) // M_sram"), but(STANDARD, "4 * N * D + 4 * N * N * D // M_sram"),
                but(STANDARD, "4 * N * D + 4 * N * N // M_sram"), but(STANDARD, "4 * N * D * passes")),
        Mistake("You count S and P too few times. Each is written by one kernel and read by the next, 4N² in all. They "
                "hold 2N², but footprint isn't traffic (eq. 9.5).",
                but(STANDARD, "2 * N * N + 4 * N * D"), but(STANDARD, "N * N + 4 * N * D")),
        Mistake("Your block of keys isn't ⌈M_sram/4D⌉. It holds whole keys, rounded up before anything is divided by "
                "it, and the minimum with D belongs to the block of queries (eq. 8.7).",
                *(but(BLOCK, x) for x in (f"min({BLOCK}, D)", "M_sram // (4 * D)", "max(M_sram // (4 * D), 1)")),
                but("-(-N // Bc)", "-(-4 * N * D // M_sram)"), but("-(-N // Bc)", "4 * N * D / M_sram")),
        Mistake("You use the theorem's leading term (eq. 9.6) instead of eq. 9.4. It's a limit; the exact count has "
                "whole passes, 2ND for K and V, and 4N per pass for l and m.",
                but(FLASH, "12 * N * N * D * D // M_sram"), but(FLASH, "N * N * D * D // M_sram"),
                but(FLASH, "2 * N * D + passes * 3 * N * D")),
        Mistake("A number takes itemsize bytes: the SRAM holds sram_bytes // itemsize numbers (eq. 8.7), and what's "
                "counted by eqs. 9.4 and 9.5 is multiplied by it.",
                but(" // itemsize", ""), but("sram_bytes // itemsize", "sram_bytes / itemsize", BLOCK, f"int({BLOCK})"),
                but("itemsize * standard, itemsize * flash", "standard, flash")),
    ),
)
