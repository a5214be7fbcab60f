"""Lesson 22, ★: how many bytes a step of decoding moves between devices."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but


def bytes_on_links(
    kind: str, devices: int, batch: int, query_heads: int, key_heads: int, keys: int, d: int, dv: int, itemsize: int,
    accumulator: int,
) -> int:
    """Bytes over all links for one new query a sequence and head; ``kind``: "keys", "tree" or "heads".

    ``keys`` of each sequence lie on all ``devices`` together. ``d``, ``dv``: numbers of a key and of a value;
    ``itemsize``, ``accumulator``: bytes of a number of the inputs, and of a number of out and lse on their way.
    "tree": a maximum and a sum, both by a ring. "heads": each device owns a share of the query heads, whose queries go
    to all other devices, and whose (out, lse) come back.
    """
    if kind == "keys":
        return (devices - 1) * batch * key_heads * keys * (d + dv) * itemsize  # eq. 22.2
    if kind == "tree":
        return 2 * (devices - 1) * batch * query_heads * (dv + 2) * accumulator  # eq. 22.3
    return (devices - 1) * batch * query_heads * (d * itemsize + (dv + 1) * accumulator)  # eq. 22.4, and the queries


def cases() -> list[Case]:
    """Small numbers, one device, several query heads on a key head, a batch; Llama-3.1-8B on 8 devices."""
    calls = [
        ("two devices, one head, 10 keys, D = 3, Dv = 4", (2, 1, 1, 1, 10, 3, 4, 2, 4)),
        ("one device: nothing travels", (1, 1, 1, 1, 10, 3, 4, 2, 4)),
        ("three devices, 8 query heads on 2 key heads, a batch of 5", (3, 5, 8, 2, 30, 4, 6, 2, 4)),
        ("two devices, float32 keys, sums of 4 bytes", (2, 1, 1, 1, 10, 3, 4, 4, 4)),
        ("Llama-3.1-8B, a layer, 8 devices, a million keys", (8, 1, 32, 8, 2**20, 128, 128, 2, 4)),
    ]
    kinds = ("keys", "tree", "heads")
    return [Case(f"{kind}: {label}", (kind, *args)) for label, args in calls for kind in kinds]


TREE, BACK = "(dv + 2) * accumulator", "(d * itemsize + (dv + 1) * accumulator)"

EXERCISE = Exercise(
    lesson="22", stars=1, reference=bytes_on_links, cases=cases,
    hints=(
        "Keys and values: what a device has goes to all others. How many copies does that make, over how many links?",
        "Tree: for each query and head one maximum, one l and Dv numbers of o. A ring of P devices moves 2 (P − 1) "
        "times the array, all links together: eq. 22.3.",
        "Heads: each query goes to P − 1 devices, D numbers of the inputs; from each, out and lse come back, eq. 22.4.",
    ),
    mistakes=(
        Mistake("You count P sends where P − 1 are made. What a device has doesn't need to come home, and one device "
                "sends nothing: eqs. 22.2 to 22.4.",
                but("(devices - 1)", "devices")),
        Mistake("You mix up the heads. Query heads that share a key head share its keys (eq. 22.2), but each of them "
                "has its own result, m, l and o (eq. 22.3).",
                but("key_heads * keys", "query_heads * keys"), but("query_heads * (", "key_heads * (")),
        Mistake("We want the bytes of all links together, not those of one device, one link or one device's keys: all "
                "keys travel, each of them P − 1 times (eq. 22.2).",
                but("(devices - 1)", "(devices - 1) / devices"), but("(devices - 1)", "(devices > 1)"),
                but("keys * (d + dv)", "(keys // devices) * (d + dv)")),
        Mistake("Your parts travel in the dtype of the inputs. They're rounded once, after merging, so use the "
                "accumulation dtype: eqs. 22.3 and 22.4.",
                but(TREE, "(dv + 2) * itemsize", BACK, "(d + dv + 1) * itemsize")),
        Mistake("A query goes out, D numbers, and out comes back with its lse, Dv + 1 numbers, or its owner can't "
                "weight it (section 4).",
                but(BACK, "(dv + 1) * accumulator"), but(BACK, "d * itemsize"),
                but("(dv + 1) * accumulator", "dv * accumulator")),
    ),
)
