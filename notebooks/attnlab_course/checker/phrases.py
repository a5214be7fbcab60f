"""The phrasebook: mistakes that people make in many exercises, each in one wording.

A phrase has gaps for what differs from exercise to exercise; ``where`` names the equation or section to look at.
Exercises use the sentences for their catalogues:

    Mistake(phrases.rescales_one("eq. 4.11", one="l", other="o"), but("o * alpha", "o"))
"""


class Said(str):
    """A sentence of the phrasebook, and the ``phrase`` that it was made of."""

    phrase: "Phrase"


class Phrase:
    """A sentence with gaps."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, where: str, **names: str) -> Said:
        """The sentence with its gaps filled; KeyError if a name is missing."""
        said = Said(self.text.format(where=where, **names))
        said.phrase = self
        return said


# Scores and softmax

unscaled = Phrase(
    "Your scores aren't scaled. A score sums D products, so its size grows like √D: divide by √D ({where})."
)
other_scale = Phrase("The scale of your scores isn't 1/√D, where D is the size of a query and of a key ({where}).")
undivided = Phrase("You don't divide by the sum of the exponentials, so a row's weights don't add up to 1 ({where}).")
divides_by_number = Phrase(
    "You divide by the number of {keys}. The exponentials add up to something else: divide by their sum ({where})."
)
over_queries = Phrase("Your sum runs over the queries. Each query has its own sum: sum along the last axis ({where}).")
unshifted = Phrase(
    "You don't subtract the maximum before exponentiating. Large scores overflow, and if all are very negative, every "
    "exponential is 0 ({where})."
)
one_maximum = Phrase(
    "You use one maximum for all rows. If another row's scores are far larger, every exponential of a row is 0, and "
    "0/0 is NaN: each row needs its own maximum ({where})."
)
apart = Phrase(
    "You exponentiate the score and {shift} separately. If scores are large, one of the two overflows, and ∞ · 0 is "
    "NaN: subtract inside the exponential ({where})."
)
epsilon = Phrase(
    "You add a small number to the sum. That changes every result whose sum is just as small, and it isn't needed: "
    "{instead} ({where})."
)
half_precision = Phrase(
    "You add in half precision, or round the sum to it. In float16, 2048 + 1 is 2048 and 65,520 is too large: keep the "
    "sum in float32, and round at the end ({where})."
)

# Numbers for −∞, and rows that see nothing

number_for_infinity = Phrase(
    "You use a finite number for −∞, where the maximum starts or where a score is hidden. That's an invented score: if "
    "all true scores are far below it, it takes all the weight, or every exponential is 0 ({where})."
)
empty_row = Phrase(
    "A row that sees nothing becomes NaN: its maximum is −∞, and −∞ − (−∞) is undefined. Subtract 0 there, and divide "
    "by 1 where the sum is 0 ({where})."
)
nothing_yet = Phrase(
    "Where nothing has been seen, the maximum is −∞, and −∞ − (−∞) is NaN. Subtract 0 there, and every exponential is "
    "e^(−∞) = 0 ({where})."
)
empty_lse = Phrase(
    "A row that sees nothing has lse = −∞, and −∞ − (−∞) is NaN. Subtract 0 there, and its weights are e^(−∞) = 0 "
    "({where})."
)
guard_written = Phrase(
    "The 0 that you subtract where nothing has been seen ends up in {m}. Later scores far below 0 can't lower it: keep "
    "{m} at −∞ until a score is seen ({where})."
)
nan_hidden = Phrase(
    "A NaN among the scores comes out as a number, so a bug upstream would go unnoticed. nan_to_num does that, and so "
    "does a guard that's false for NaN. Test for −∞ itself; then there's no NaN to remove ({where})."
)
nan_too_late = Phrase(
    "You turn NaN into 0 in the result, and lose what other keys and queries contributed. Don't let NaN arise: "
    "subtract 0 where {what} is −∞ ({where})."
)
no_weights = Phrase("A row without any weight gives 0/0, which is NaN. Its output is 0: guard the division ({where}).")

# Masks

hidden_zero = Phrase("{what} get the score 0, and e⁰ = 1 is a vote. Their score is −∞ ({where}).")
sees_future = Phrase("Your queries see the future: nothing hides the keys that come after them ({where}).")
top_left = Phrase(
    "You align the first query with the first key, the top left corner. The last query lines up with the last key, so "
    "{rule} ({where})."
)
mask_transposed = Phrase(
    "You read the block mask transposed. Its rows are blocks of queries, block_mask[I, J], and a symmetric pattern "
    "doesn't show the difference ({where})."
)

# Folds and parts

rescales_nothing = Phrase(
    "You don't rescale when the maximum moves. {sums} relative to the old one: multiply by {factor}, computed before "
    "the maximum is overwritten ({where})."
)
rescales_partly = Phrase(
    "{sums} isn't rescaled when the maximum moves. Both are relative to the old one: multiply both by {factor} "
    "({where})."
)
rescales_one = Phrase(
    "You rescale {one} and not {other}. Both are sums of the same exponentials, relative to the same maximum, so both "
    "take the same factor ({where})."
)
upside_down = Phrase(
    "Your factor is upside down. Terms measured from a smaller maximum have to shrink: the factor is {factor}, at most "
    "1 ({where})."
)
different_maxima = Phrase(
    "You add sums that are relative to different maxima. Bring them to the common maximum first: multiply each by "
    "e^(its own maximum − the common one) ({where})."
)
averages = Phrase(
    "You average the outputs of the parts as if they all weighed the same. A part weighs as much as its sum of "
    "exponentials ({where})."
)
divides_early = Phrase(
    "You divide {o} by {l} inside the loop and add to the quotient as if it were a sum. Divide once, after the loop "
    "({where})."
)
m_unstored = Phrase(
    "You never store m, so each block of keys finds −∞ there again. The inner loop stores O, l and m ({where})."
)
new_unscaled = Phrase(
    "P̃ is measured from the tile's own maximum. Before you add it, multiply it by e^(m̃ − m') ({where})."
)
sram_full = Phrase(
    "SRAM overflows because you hold more than the blocks at hand. Release the rest: use `with machine.scope()` in "
    "each of the two loops, or call machine.free ({where})."
)
loads_inside = Phrase(
    "You load keys or values in the inner loop, once for every block of queries. Load them in the outer loop, and they "
    "stay on chip ({where})."
)
keeps_all = Phrase(
    "You keep something from every {item}. Constant memory means forgetting each one as soon as its share is in {sums} "
    "({where})."
)

# What's left over

last_one = Phrase(
    "{what} after the last whole {block} are left out. The last {block} is shorter: round the number of {block}s up "
    "({where})."
)

# Gradients

l_constant = Phrase(
    "The gradient stops at l, as if dS were P ∘ dP. Every weight depends on every score of its row through l. Only the "
    "maximum may be a constant, because it cancels ({where})."
)
no_gradient = Phrase(
    "{what} get no gradient. What's recomputed sees only the tensors it's given: pass each as an argument, not "
    "detached, and not through a closure ({where})."
)
scale_in_gradient = Phrase(
    "The factor 1/√D is missing from {what}. The score is q·k/√D, so the factor returns in its derivative ({where})."
)
delta_of_tile = Phrase(
    "Your Δ is the row sum of p ∘ dp over one tile. The row runs over all keys, and out knows them all: Δ = rowsum(dO "
    "∘ O) ({where})."
)
overwritten = Phrase(
    "{what} hold only what the last {block} contributed. They're sums over all of them: add ({where})."
)

# Units and counts

missing_log2e = Phrase(
    "The factor log₂ e is missing. 2^s isn't e^s: it gives attention at a different temperature. Multiply the scale by "
    "log₂ e = 1.44 ({where})."
)
lse_in_base_two = Phrase(
    "Your lse is in base two. Whoever merges parts or runs the backward pass expects a natural logarithm: multiply by "
    "ln 2 ({where})."
)
elements = Phrase("You count numbers, not bytes: {what} ({where}).")
query_heads = Phrase(
    "You count keys and values for every query head. Query heads that share a key head share its keys ({where})."
)
adds_times = Phrase("You add the two times. They overlap, so the longer one is what you wait for ({where}).")

# Heads, blocks of memory, caches

shared_modulo = Phrase(
    "Your query head h reads key head h mod Hk. Consecutive query heads share a key head: h // (Hq / Hk) ({where})."
)
keys_unrotated = Phrase(
    "You rotate the queries, but not the keys. A key is rotated by its own position before it's kept ({where})."
)
slot_for_position = Phrase(
    "You mistake the number of a slot for the position of its token. Once the ring has wrapped around, the two differ "
    "({where})."
)
sinks_left_out = Phrase("You leave the sinks out. Every later query sees them, however old they are ({where}).")
empty_slots = Phrase(
    "An empty slot has a vote: its key is 0, so its score is 0, but its weight isn't. Test for positions ≥ 0 first "
    "({where})."
)
old_reference = Phrase("After a copy, the old block keeps your reference, so it never becomes free ({where}).")
writes_shared = Phrase(
    "You copy the block and go on writing into the shared one: the table must name the copy ({where})."
)
no_messages = Phrase(
    "You send no messages, so some rank has seen all keys. Each rank gets its own from cluster.run, and learns of "
    "others through messages ({where})."
)

# Debugging exercises, and lessons that share one

nothing_fixed = Phrase("Nothing is fixed yet: three lines are wrong. Try {inputs} ({where}).")
one_fixed = Phrase("One of the three lines is fixed, two aren't. Try {inputs} ({where}).")
after_wrong_guess = Phrase(
    "You go on after a wrong guess. What follows it was computed after a token that isn't in the text ({where})."
)
