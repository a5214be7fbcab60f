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
scaled_by_values = Phrase(
    "You divide the scores by √Dv. A score sums the D products of a query and a key, so divide by √D ({where})."
)
scaled_by_d = Phrase(
    "You divide the scores by D, or by √D twice. The variance of a score is D, so its size is √D: divide by √D, once "
    "({where})."
)
other_scale = Phrase("The scale of your scores isn't 1/√D, where D is the size of a query and of a key ({where}).")
undivided = Phrase("You don't divide by the sum of the exponentials, so a row's weights don't add up to 1 ({where}).")
divides_by_number = Phrase(
    "You divide by the number of {keys}. The exponentials add up to something else: divide by their sum ({where})."
)
wrong_axis = Phrase(
    "You normalize along the wrong axis. Each row holds one query's weights, which add up to 1: take the maximum and "
    "the sum along the last axis ({where})."
)
over_everything = Phrase(
    "Your sum runs over the whole array. Each row has its own sum: sum along the last axis only ({where})."
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
clipped = Phrase(
    "You clip the scores. All beyond the limit become equal, and so do their weights: subtract each row's maximum "
    "instead ({where})."
)
epsilon = Phrase(
    "You add a small number to the sum. That changes every result whose sum is just as small, and it isn't needed: "
    "{instead} ({where})."
)
half_precision = Phrase(
    "You add in half precision, or round the sum to it. In float16, 2048 + 1 is 2048 and 65,520 is too large: keep the "
    "sum in float32, and round at the end ({where})."
)
lse_without_maximum = Phrase("Your lse lacks the maximum. l is measured relative to m, so lse = m + log l ({where}).")

# Numbers for −∞, and rows that see nothing

starts_at_number = Phrase(
    "Your maximum starts at a finite number, or never falls below one. That's an invented score, and if all true "
    "scores are far below it, every exponential is 0. The maximum of nothing is −∞ ({where})."
)
hides_with_number = Phrase(
    "You hide scores with a finite number. It's a score like any other: if the visible ones are just as low, the "
    "hidden ones get weight. A hidden score is −∞ ({where})."
)
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
empty_equal = Phrase(
    "In your empty row, all weights are equal. A number in place of −∞ is a score like any other, and e⁰ = 1 is a "
    "vote: keep −∞, and the output is 0 ({where})."
)
no_weights = Phrase("A row without any weight gives 0/0, which is NaN. Its output is 0: guard the division ({where}).")

# Masks

hidden_zero = Phrase("{what} get the score 0, and e⁰ = 1 is a vote. Their score is −∞ ({where}).")
hides_late = Phrase(
    "You hide after normalizing, so what's left of a row adds up to less than 1. Hide before you take the sum "
    "({where})."
)
maximum_over_hidden = Phrase(
    "Your maximum runs over hidden scores, too. If one of them is far larger, every visible weight is 0, and 0/0 is "
    "NaN: hide first, then take the maximum ({where})."
)
mask_turned = Phrase("Your mask is inverted: True means attend ({where}).")
sees_future = Phrase("Your queries see the future: nothing hides the keys that come after them ({where}).")
future_alone = Phrase("You show the future and hide the past. A query sees key j if {rule} ({where}).")
not_itself = Phrase("A query doesn't see its own key. The comparison is ≤, not <: {rule} ({where}).")
top_left = Phrase(
    "You align the first query with the first key, the top left corner. The last query lines up with the last key, so "
    "{rule} ({where})."
)
offset_turned = Phrase(
    "You shift the queries the wrong way. The last query lines up with the last key, so {rule} ({where})."
)
window_long = Phrase("Your window is one key too long. The query's own key belongs to it: i − j < window ({where}).")
window_short = Phrase("Your window is one key too short: the oldest key leaves a step early. i − j < window ({where}).")
window_turned = Phrase(
    "You read the window backward. Its first number counts the keys before the query, its second those after it "
    "({where})."
)
zero_as_none = Phrase(
    "You treat a 0 in the window as no limit. It hides all keys beyond the query's own position; only None hides "
    "nothing: test for `is None` ({where})."
)
mask_transposed = Phrase(
    "You read the block mask transposed. Its rows are blocks of queries, block_mask[I, J], and a symmetric pattern "
    "doesn't show the difference ({where})."
)
hidden_in_l = Phrase(
    "Hidden tiles stay in your denominator, so rows add up to 1 − η. Leave them out of l as well ({where})."
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
printed_update = Phrase(
    "This is the update of l that the essay prints, eq. 4.12: the factor is added where it should multiply, and the "
    "new term is missing. Compare {where}."
)
different_maxima = Phrase(
    "You add sums that are relative to different maxima. Bring them to the common maximum first: multiply each by "
    "e^(its own maximum − the common one) ({where})."
)
one_side = Phrase(
    "You rescale only one side. Either side may have the smaller maximum, so both need a factor ({where})."
)
averages = Phrase(
    "You average the outputs of the parts as if they all weighed the same. A part weighs as much as its sum of "
    "exponentials ({where})."
)
never_divided = Phrase(
    "You never divide {o} by {l}. It's a sum until all keys are read: divide it then, once ({where})."
)
divides_early = Phrase(
    "You divide {o} by {l} inside the loop and add to the quotient as if it were a sum. Divide once, after the loop "
    "({where})."
)
divides_each = Phrase(
    "The values are right, but you divide at each block, and once is enough: keep {o} undivided until the loop is over "
    "({where})."
)
begins_anew = Phrase(
    "You reset {state} at each block of keys, so only the last block counts. They live as long as their queries do "
    "({where})."
)
divided_already = Phrase(
    "O is stored divided by l, and you add to it as if it weren't. Multiply it by the old l first ({where})."
)
m_unstored = Phrase(
    "You never store m, so each block of keys finds −∞ there again. The inner loop stores O, l and m ({where})."
)
returns_lse = Phrase("Your {which} result is m + log l, the lse. {asked} itself is what's asked for ({where}).")
new_unscaled = Phrase(
    "P̃ is measured from the tile's own maximum. Before you add it, multiply it by e^(m̃ − m') ({where})."
)
sram_full = Phrase(
    "SRAM overflows because you hold more than the blocks at hand. Release the rest: use `with machine.scope()` in "
    "each of the two loops, or call machine.free ({where})."
)
breaks_off = Phrase(
    "You end the loop at the first hidden tile, although later ones can be visible: continue, don't break ({where})."
)
loads_inside = Phrase(
    "You load keys or values in the inner loop, once for every block of queries. Load them in the outer loop, and they "
    "stay on chip ({where})."
)
queries_again = Phrase(
    "You load the queries again for every block of keys. They can stay on chip while the keys pass by: load them "
    "before that loop ({where})."
)
queries_outside = Phrase(
    "Your loops are the other way around, with queries outside, as in FlashAttention-2. {algorithm} loads each block "
    "of keys once ({where})."
)
keeps_all = Phrase(
    "You keep something from every {item}. Constant memory means forgetting each one as soon as its share is in {sums} "
    "({where})."
)
block_ignored = Phrase("`block` is ignored: as many keys are to be read at a time ({where}).")
all_scores = Phrase(
    "You hold all N × M scores at once. Compute those of one {piece}, use them and forget them ({where})."
)

# What's left over

last_one = Phrase(
    "{what} after the last whole {block} are left out. The last {block} is shorter: round the number of {block}s up "
    "({where})."
)
not_rounded_up = Phrase(
    "Your number of {what} isn't rounded up. What's left over needs one of its own, however little it is ({where})."
)
adds_one = Phrase(
    "You always add one. If nothing is left over, that's one {what} too many: -(-a // b) rounds up ({where})."
)
kernel_size = Phrase("You round to a size that kernels like. {asked} is what's asked for, whatever it is ({where}).")
floating = Phrase(
    "You divide in floating point, which is too coarse for large numbers: stay with integers, // ({where})."
)
exact_fit = Phrase("An exact fit fits: compare with ≤, not with < ({where}).")
negative = Phrase("Your result is negative where the weights don't fit. Nothing else fits then: return 0 ({where}).")

# Gradients

l_constant = Phrase(
    "The gradient stops at l, as if dS were P ∘ dP. Every weight depends on every score of its row through l. Only the "
    "maximum may be a constant, because it cancels ({where})."
)
stops_at_p = Phrase(
    "dS isn't P ∘ dP: that treats the sum l as a constant. Shifting a row's scores changes nothing, so each row of dS "
    "adds up to 0: subtract rowsum(P ∘ dP) from dP first ({where})."
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
tile_maximum = Phrase(
    "Your weights are relative to the tile's maximum and never divided, so each row is too large by a factor. "
    "Subtract lse, which holds both ({where})."
)
within_tile = Phrase(
    "You normalize within the tile. Its weights add up to its share of the row, not to 1. Use lse, which knows the "
    "whole row ({where})."
)
divides_twice = Phrase("You divide twice: lse holds log l, so e^(s − lse) is already divided by l ({where}).")

# Units and counts

missing_log2e = Phrase(
    "The factor log₂ e is missing. 2^s isn't e^s: it gives attention at a different temperature. Multiply the scale by "
    "log₂ e = 1.44 ({where})."
)
lse_in_base_two = Phrase(
    "Your lse is in base two. Whoever merges parts or runs the backward pass expects a natural logarithm: multiply by "
    "ln 2 ({where})."
)
weights_in_base_two = Phrase(
    "You read a natural lse as one in base two: the weights are powers of e, not of 2. ONES can't show it, because any "
    "weights that add up to 1 give 1 ({where})."
)
bare_lse = Phrase(
    "Your weights are bare exponentials of lse, and they overflow. Subtract the largest lse first ({where})."
)
elements = Phrase("You count numbers, not bytes: {what} ({where}).")
two_bytes = Phrase("You count 2 bytes for each number, whatever its type: it takes itemsize bytes ({where}).")
bits = Phrase("You count bits. {what} is in bytes already ({where}).")
half_cache = Phrase("You count only keys or only values. Every key comes with its value: count both ({where}).")
one_layer = Phrase("You count one layer. Every layer has its own keys and values ({where}).")
query_heads = Phrase(
    "You count keys and values for every query head. Query heads that share a key head share its keys ({where})."
)
loads_alone = Phrase("You count only loads. Results are stored, and stores move bytes, too ({where}).")
scores_too_seldom = Phrase(
    "You count S and P too few times. Each is written by one kernel and read by the next, 4N² in all. They hold 2N², "
    "but footprint isn't traffic ({where})."
)
inputs_left_out = Phrase("You leave out Q, K, V or O of standard attention. Each crosses once: 4ND ({where}).")
keys_in_every_pass = Phrase(
    "You let K and V cross in every pass. A pass brings one block of them, so all passes together bring K and V once "
    "({where})."
)
keys_left_out = Phrase("You leave out K or V. Each crosses once: 2ND ({where}).")
pass_too_cheap = Phrase(
    "Your passes move too little. Each brings Q in, O in and out, and l and m in and out: 3ND + 4N ({where})."
)
counts_tiles = Phrase(
    "You count tiles, T_r·T_c. Each brings only B_r rows, and T_r blocks of B_r rows are N rows ({where})."
)
cache_shared = Phrase("You let the batch share one cache. Each sequence has its own keys and values ({where}).")
weights_each = Phrase(
    "You read the weights once for each sequence. They're read once per step and serve the whole batch ({where})."
)
weights_unread = Phrase(
    "Every step reads the weights, too, once for the whole batch. Without them a small batch looks fast ({where})."
)
caches_unread = Phrase("A step reads the whole caches, too: the new query meets every key ({where}).")
weights_in_memory = Phrase("The weights are in memory, too. Only what they leave holds caches ({where}).")
adds_times = Phrase("You add the two times. They overlap, so the longer one is what you wait for ({where}).")
shorter_time = Phrase("You take the shorter time. Both have to end: a step takes the longer of the two ({where}).")

# Heads, blocks of memory, caches

shared_modulo = Phrase(
    "Your query head h reads key head h mod Hk. Consecutive query heads share a key head: h // (Hq / Hk) ({where})."
)
repeats_keys = Phrase(
    "You repeat keys and values for every query head, which undoes all that grouping has saved. Compute with the "
    "shared ones in place ({where})."
)
keys_for_queries = Phrase("You take as many keys as there are queries: N for M. There are M keys ({where}).")
heads_apart = Phrase("Your heads of keys and values don't begin M rows apart. With N = M, that doesn't show ({where}).")
store_unmasked = Phrase(
    "Your store has no mask: the last block overwrites what comes next, or writes past the array ({where})."
)
load_unmasked = Phrase("Your load has no mask: past the end is the next array, or memory that isn't yours ({where}).")
one_beyond = Phrase(
    "Your mask lets one too many through. Counting starts at 0, so the comparison is <, not ≤ ({where})."
)
advanced_twice = Phrase(
    "You advance the pointer twice: it has moved on, and the offset still counts from the beginning. Do one or the "
    "other ({where})."
)
positions_restart = Phrase("Your positions begin at 0 in every call. They're positions in the text, {rule} ({where}).")
keys_unrotated = Phrase(
    "You rotate the queries, but not the keys. A key is rotated by its own position before it's kept ({where})."
)
rotated_again = Phrase(
    "You rotate keys again at every {step}. A key is rotated once, by its own position, before {then} ({where})."
)
own_tokens = Phrase("Each {chunk} sees only its own tokens. Everything that came before takes part, too ({where}).")
slot_for_position = Phrase(
    "You mistake the number of a slot for the position of its token. Once the ring has wrapped around, the two differ "
    "({where})."
)
sinks_left_out = Phrase("You leave the sinks out. Every later query sees them, however old they are ({where}).")
empty_slots = Phrase(
    "An empty slot has a vote: its key is 0, so its score is 0, but its weight isn't. Test for positions ≥ 0 first "
    "({where})."
)
nothing_dropped = Phrase(
    "Nothing is dropped, so the window grows with the text. Keep the last `window` keys ({where})."
)
state_each_token = Phrase("You hold the state after every token. One for each chunk is enough ({where}).")
copies_full = Phrase(
    "You copy a shared block that's full. Nothing is written into it again, so it stays shared ({where})."
)
copies_own = Phrase("You copy a block that nobody else holds. Its last owner writes in place ({where}).")
copies_idly = Phrase("You copy although nothing is written: it's copy on *write* ({where}).")
old_reference = Phrase("After a copy, the old block keeps your reference, so it never becomes free ({where}).")
writes_shared = Phrase(
    "You copy the block and go on writing into the shared one: the table must name the copy ({where})."
)
rounds_on_the_way = Phrase(
    "You round on the way, and those errors add up. Keep what travels wide, and round once, at the end ({where})."
)
no_messages = Phrase(
    "You send no messages, so some rank has seen all keys. Each rank gets its own from cluster.run, and learns of "
    "others through messages ({where})."
)

# Debugging exercises, and lessons that share one

nothing_fixed = Phrase("Nothing is fixed yet: three lines are wrong. Try {inputs} ({where}).")
one_fixed = Phrase("One of the three lines is fixed, two aren't. Try {inputs} ({where}).")
offset_zero = Phrase(
    "Your offset is 0 everywhere. Key a of a later rank comes after query a, so the diagonal is hidden there: −1 "
    "({where})."
)
offset_one_back = Phrase(
    "Your offset is −1 everywhere, so no token sees itself: it's 0 where the ranks agree ({where})."
)
positive_half = Phrase("Your map has only e^(xW). Hedgehog has both signs, e^(xW) and e^(−xW) ({where}).")
own_correction = Phrase(
    "Your A includes its diagonal, but a token doesn't correct its own write: only j < i ({where})."
)
own_gate = Phrase("Your G_ij includes a_j, so what token j writes fades before it's read. Begin at j + 1 ({where}).")
after_wrong_guess = Phrase(
    "You go on after a wrong guess. What follows it was computed after a token that isn't in the text ({where})."
)
