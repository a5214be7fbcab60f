"""A right answer to plan_step, lesson 20, kept by the checker: delete it as you like."""

from __future__ import annotations


def plan_step(texts, budget, free, size):
    """How many tokens to feed each text in this step, in the order of ``texts``; −1 takes away all its blocks.

    ``texts``: (missing, held) for each text that has arrived and isn't done, oldest first. ``missing`` tokens have to
    be fed before the next one can be sampled: 1 while a text decodes, more for a prompt or a text that has lost its
    blocks. ``held`` tokens are in the pool, in blocks of ``size``. Feed at most ``budget`` tokens, and take no more new
    blocks than are ``free`` or taken away in this step. Every text has to end. We judge the median time to first token
    and the 99th percentile of the time between tokens.
    """
    ### BEGIN SOLUTION
    fed = [0] * len(texts)
    blocks = [-(-held // size) for _, held in texts]
    for i in sorted(range(len(texts)), key=lambda i: texts[i][0] > 1):  # those that decode, then prompts, by age
        missing, held = texts[i]
        count = min(missing, budget)
        if fed[i] < 0 or count == 0:
            continue
        wanted = count if held else missing  # a newcomer waits until its whole prompt fits
        need = -(-(held + wanted) // size) - blocks[i]
        for j in range(len(texts) - 1, i, -1):
            if need > free and held and blocks[j] and fed[j] == 0:
                fed[j] = -1
                free += blocks[j]
        if need > free:
            break
        fed[i] = count
        free -= -(-(held + count) // size) - blocks[i]
        budget -= count
    return fed
    ### END SOLUTION
