"""Lesson 09, ★: standard attention and FlashAttention on one chip."""

from attnlab.check.exercise import Case, Exercise, Function, Mistake

Two = tuple[int, int]


def bytes_moved(N: int, D: int, sram_bytes: int, itemsize: int) -> Two:
    """Bytes moved by the forward of (standard attention, FlashAttention), a tuple of two integers; without fills."""
    return itemsize * standard(N, D), itemsize * flash(N, D, -(-(sram_bytes // itemsize) // (4 * D)))


def standard(n: int, d: int) -> int:
    """Eq. 9.7."""
    return 4 * n * n + 4 * n * d


def flash(n: int, d: int, b_c: int) -> int:
    """Eq. 9.4."""
    return 2 * n * d + -(-n // b_c) * (3 * n * d + 4 * n)


def cases() -> list[Case]:
    """From a toy chip to Figure 2's; SRAM a multiple of 4D and not, N a multiple of the block and not."""
    calls = [
        ("N = 4, D = 1, 8 bytes of SRAM, 1 byte a number: M_sram = 8, two keys in a block", (4, 1, 8, 1)),
        ("the same in 2-byte numbers: M_sram = 4, one key in a block", (4, 1, 8, 2)),
        ("RAGGED: N = 7, D = 2, M_sram = 24: three keys in a block", (7, 2, 48, 2)),
        ("M_sram = 25, 4D = 8: the block is rounded up, to four keys", (12, 2, 25, 1)),
        ("51 bytes of 2-byte numbers: M_sram = 25", (12, 2, 51, 2)),
        ("a small SRAM: N = 256, D = 16, M_sram = 128: FlashAttention moves more", (256, 16, 512, 4)),
        ("one head of Figure 2: 192 KB, half precision", (1024, 64, 192 * 1024, 2)),
        ("the same with twice the SRAM", (1024, 64, 384 * 1024, 2)),
        ("N = 32,000, D = 128, 192 KB, half precision", (32_000, 128, 192 * 1024, 2)),
    ]
    return [Case(label, args) for label, args in calls]


def with_block(block: Function) -> Function:
    """A wrong answer with another block of keys: block(M, D, bytes of SRAM)."""
    return lambda N, D, sram_bytes, itemsize: (
        itemsize * standard(N, D), itemsize * flash(N, D, block(sram_bytes // itemsize, D, sram_bytes)),
    )  # fmt: skip


def with_standard(elements: Function) -> Function:
    """A wrong answer with other traffic of standard attention: elements(N, D, M)."""
    return lambda N, D, sram_bytes, itemsize: (
        itemsize * elements(N, D, sram_bytes // itemsize), bytes_moved(N, D, sram_bytes, itemsize)[1]
    )  # fmt: skip


def with_flash(elements: Function) -> Function:
    """A wrong answer with other traffic of FlashAttention: elements(N, D, T_c)."""
    return lambda N, D, sram_bytes, itemsize: (
        itemsize * standard(N, D), itemsize * elements(N, D, passes(N, D, sram_bytes // itemsize)),
    )  # fmt: skip


def passes(n: int, d: int, m: int) -> int:
    """T_c for an SRAM of ``m`` elements."""
    return -(-n // -(-m // (4 * d)))


def in_elements(N: int, D: int, sram_bytes: int, itemsize: int) -> Two:
    """Wrong: elements."""
    return standard(N, D), flash(N, D, -(-(sram_bytes // itemsize) // (4 * D)))


EXERCISE = Exercise(
    lesson="09",
    stars=1,
    reference=bytes_moved,
    cases=cases,
    hints=(
        "Which of the two laws of this lesson knows the size of SRAM, and through which quantity?",
        "Standard attention is eq. 9.7, whatever the SRAM; FlashAttention is eq. 9.4.",
        "M_sram counts elements: sram_bytes // itemsize. Then Bc = ⌈M_sram / 4D⌉.",
        "Round up twice, for Bc and for the passes: -(-a // b). Both laws count elements; multiply by itemsize at the "
        "end.",
    ),
    mistakes=(
        Mistake(
            "You compute the block from bytes. M_sram in ⌈M_sram/4D⌉ counts elements (eq. 9.5): divide sram_bytes by "
            "itemsize first, or the blocks do not fit the chip and eq. 9.4 gives too few passes.",
            with_block(lambda m, d, size: -(-size // (4 * d))),
        ),
        Mistake(
            "You let the SRAM help standard attention. Its S and P are written to HBM and read back whole, in small "
            "pieces or in large ones: eq. 9.7 has no M_sram.",
            with_standard(lambda n, d, m: standard(n, d) // m),
            with_standard(lambda n, d, m: 4 * n * d + 4 * n * n * d // m),
            with_standard(lambda n, d, m: 4 * n * d + 4 * n * n // m),
            with_standard(lambda n, d, m: 4 * n * d * passes(n, d, m)),
            with_standard(lambda n, d, m: 4 * n * n * d * d // m),
        ),
        Mistake(
            "You count S and P once each. They are written and read again: 4N² in all (eq. 9.7). What they *hold* is "
            "2N²; footprint is not traffic.",
            with_standard(lambda n, d, m: 2 * n * n + 4 * n * d), with_standard(lambda n, d, m: n * n + 4 * n * d),
        ),
        Mistake(
            "You leave out Q, K, V and O of standard attention, or some of them. Each crosses once: 4ND (eq. 9.7).",
            with_standard(lambda n, d, m: 4 * n * n), with_standard(lambda n, d, m: 4 * n * n + 3 * n * d),
        ),
        Mistake(
            "You leave out the 4: a block of M_sram/D keys and its values alone are twice the SRAM. FA's rule is "
            "⌈M_sram/4D⌉ (eq. 9.5; what has to fit is eq. 8.7).",
            with_block(lambda m, d, size: -(-m // d)),
        ),
        Mistake(
            "You use the block of queries, min(⌈M_sram/4D⌉, D), for the keys. Bc = ⌈M_sram/4D⌉ without the minimum "
            "(eq. 9.5); B_r does not occur in eq. 9.4.",
            with_block(lambda m, d, size: min(-(-m // (4 * d)), d)),
        ),
        Mistake(
            "You round Bc down. FA's rule is ⌈M_sram/4D⌉, rounded up (eq. 9.5).",
            with_block(lambda m, d, size: m // (4 * d)), with_block(lambda m, d, size: max(m // (4 * d), 1)),
        ),
        Mistake(
            "You round the number of passes down. The keys that are left over need a pass of their own (eq. 9.1).",
            lambda N, D, sram_bytes, itemsize: (
                itemsize * standard(N, D),
                itemsize * (2 * N * D + N // -(-(sram_bytes // itemsize) // (4 * D)) * (3 * N * D + 4 * N)),
            ),
        ),
        Mistake(
            "You count tiles: T_r·T_c. Each brings only B_r rows, and T_r blocks of B_r rows are N rows (eq. 9.2): the "
            "traffic is T_c passes of 3ND + 4N.",
            with_flash(lambda n, d, t: 2 * n * d + t * t * (3 * n * d + 4 * n)),
        ),
        Mistake(
            "You use the theorem's leading term (eq. 9.6) instead of eq. 9.4. It is a limit; the exact count has "
            "whole passes, 2ND for K and V, and 4N a pass for l and m.",
            lambda N, D, sram_bytes, itemsize: (
                itemsize * standard(N, D), itemsize * (12 * N * N * D * D // (sram_bytes // itemsize)),
            ),
            lambda N, D, sram_bytes, itemsize: (
                itemsize * standard(N, D), itemsize * (N * N * D * D // (sram_bytes // itemsize)),
            ),
            with_flash(lambda n, d, t: 2 * n * d + t * 3 * n * d),
        ),
        Mistake(
            "You return elements. Bytes are asked for: multiply both results of eq. 9.4 and eq. 9.7 by itemsize.",
            in_elements,
        ),
        Mistake(
            "You return the two in the other order. First standard attention (eq. 9.7), then FlashAttention (eq. 9.4).",
            lambda N, D, sram_bytes, itemsize: bytes_moved(N, D, sram_bytes, itemsize)[::-1],
        ),
    ),
)
