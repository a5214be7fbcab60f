"""What sharing saves: samples of a prompt, and beams, counted by a BlockManager. A simulation; array-free.

The saving is 1 − blocks in use / blocks that the tables list: without sharing each table would have its own. Source:
Kwon et al. 2023, sections 4.4 and 6.3.
"""

import random
from collections.abc import Iterable, Sequence

from attnlab.paged.manager import BlockManager
from attnlab_course.lessons.lesson19.policies import Lengths


def samples(prompt: int, outputs: Sequence[int], block_size: int) -> tuple[int, int]:
    """(blocks in use, blocks in tables), each summed over the steps in which samples of one prompt are written.

    ``outputs``: tokens of each sample, which is freed when it has them; the blocks of the others stay.
    """
    manager = _room(prompt + max(outputs), len(outputs), block_size)
    _fork(manager, prompt, len(outputs))
    used = listed = 0
    for step in range(max(outputs)):
        going = [name for name, output in enumerate(outputs) if step < output]
        for name in going:
            manager.append(name, 1)
        used, listed = used + manager.blocks - manager.free_blocks, listed + _listed(manager, going)
        for name in going:
            if outputs[name] == step + 1:
                manager.free(name)
    return used, listed


def beams(request: Lengths, width: int, block_size: int, keep: float = 0.0, seed: int = 0) -> tuple[int, int]:
    """(blocks in use, blocks in tables), each summed over the steps of a beam search.

    At each step a candidate goes on from itself with probability ``keep``, else from any of the candidates.
    """
    generator, names = random.Random(seed), list(range(width))
    manager = _room(sum(request), 2 * width, block_size)
    _fork(manager, request.prompt, width)
    used = listed = 0
    for step in range(request.output):
        parents = [name if generator.random() < keep else generator.choice(names) for name in names]
        children = [(step, place) for place in range(width)]
        for parent, child in zip(parents, children):
            manager.fork(parent, child)
        for name in names:
            manager.free(name)
        for child in children:
            manager.append(child, 1)
        names = children
        used, listed = used + manager.blocks - manager.free_blocks, listed + _listed(manager, names)
    return used, listed


def saving(counts: Iterable[tuple[int, int]]) -> float:
    """The share of the blocks that sharing saves, of (blocks in use, blocks in tables) of several requests."""
    used, listed = map(sum, zip(*counts))
    return 1 - used / listed


def _room(tokens: int, sequences: int, block_size: int) -> BlockManager:
    return BlockManager((-(-tokens // block_size) + 1) * sequences, block_size)


def _fork(manager: BlockManager, prompt: int, count: int) -> None:
    """A prompt, and ``count`` sequences 0, 1, … that have it."""
    manager.add(0)
    manager.append(0, prompt)
    for name in range(1, count):
        manager.fork(0, name)


def _listed(manager: BlockManager, names: Iterable) -> int:
    return sum(len(manager.table(name)) for name in names)
