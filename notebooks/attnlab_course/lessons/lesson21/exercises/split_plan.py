"""Lesson 21, ★★: over how many devices to trade tokens for heads, and how many to leave to a ring."""

from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def split_plan(tokens: int, devices: int, query_heads: int, key_heads: int, flops: float, bandwidth: float) -> int:
    """How many devices share the heads, so that attention waits least for its links: a number that divides ``devices``.

    Groups of that many devices trade tokens for heads by all-to-all, before and after; rings of devices / groups go
    through the groups. It must divide ``key_heads``. Forward, unmasked, in half precision; every device has
    tokens / devices tokens of all heads, and a link of ``bandwidth`` bytes/s in one direction. A ring's transfer is
    hidden by the products of the block at hand, at ``flops``; an all-to-all by nothing.
    """
    chunk, waits = tokens / devices, {}  # for one number of a head: its size cancels
    for group in range(1, devices + 1):
        if devices % group or key_heads % group:
            continue
        ring = devices // group
        traded = (group - 1) / group * chunk * 2 * (query_heads + key_heads) * 2 / bandwidth
        block = chunk * group * 2 * (key_heads / group) * 2 / bandwidth
        products = 4 * (chunk * group) ** 2 * (query_heads / group) / flops
        waits[group] = traded + (ring - 1) * max(block - products, 0)
    return min(waits, key=waits.get)


A100, H100 = (312e12, 300e9), (989.4e12, 450e9)

EXERCISE = Exercise(
    lesson="21", stars=2, reference=split_plan, where="section 5",
    cases=table(
        ("one device", 4096, 1, 8, 8, *A100),
        ("8 A100, 32 heads, 256 tokens on each", 2048, 8, 32, 32, *A100),
        ("8 A100, 32 heads, 8,192 tokens on each", 65_536, 8, 32, 32, *A100),
        ("8 A100, 4 key heads for 32 query heads, 100 tokens on each", 800, 8, 32, 4, *A100),
        ("64 H100, 8 key heads for 64 query heads, 64 tokens on each", 4096, 64, 64, 8, *H100),
        ("64 H100, 8 key heads for 8 query heads, 512 tokens on each", 32_768, 64, 8, 8, *H100),
        ("8 A100, 2 key heads for 4 query heads, 64 tokens on each", 512, 8, 4, 2, *A100),
        ("4 devices with links of 100 GB/s, 400 tokens on each", 1600, 4, 16, 8, 312e12, 100e9),
        ("12 devices, 6 key heads", 1200, 12, 6, 6, *A100),
        ("8 devices, 12 key heads: 3 divides the heads and not the devices", 1600, 8, 12, 12, *A100),
        ("16 A100 by InfiniBand, 16,384 tokens on each, 8 key heads for 32", 262_144, 16, 32, 8, 312e12, 12.5e9),
    ),
    hints=(
        "Which numbers of devices are possible at all? Each has two waits: the trades, and what the ring doesn't hide.",
        "In a group of g, a device sends (g − 1) / g of its queries, keys, values and outputs. After the trade it has "
        "g times the tokens, for a g-th of the heads.",
        "So a block of the ring has as many bytes as before, but g times the products: a trade makes the ring's chunk "
        "larger. The ring has devices / g − 1 transfers; each waits max(transfer − products, 0).",
    ),
    without={
        "traded": "Your all-to-all is free, but attention waits for it, before and after: section 5.",
        "query_heads": "You trade only keys and values. Queries go there, too, and outputs come back: eq. 21.9.",
    },
    mistakes=(
        Mistake("Your groups don't make the ring's chunk larger. After the trade a device has the tokens of its whole "
                "group: eq. 21.4 with g times the tokens.",
                but("4 * (chunk * group) ** 2 * (query_heads / group)", "4 * chunk ** 2 * query_heads")),
        Mistake("Your ring hides nothing. Its messages travel while the block at hand is computed: section 3.",
                but("max(block - products, 0)", "block")),
        Mistake("Key heads must be shared out evenly, and so must devices: a group divides both (section 5).",
                but("if devices % group or key_heads % group:", "if devices % group or query_heads % group:"),
                but("if devices % group or key_heads % group:", "if devices % group:")),
        Mistake("Your ring has as many transfers as devices, but after the trade it goes through devices / g groups "
                "(section 5).",
                but("(ring - 1)", "(devices - 1)")),
    ),
)
