"""Layers of several kinds in one server: a block manager for each group of them. Array-free."""

from collections.abc import Hashable, Iterable

from attnlab.paged.manager import Appended, BlockManager, OutOfBlocks


class GroupedManager:
    """Managers of the same sequences, one for each group of layers, as one: layers with a window keep fewer blocks.

    ``groups``: BlockManagers of equal block sizes, the first one without a window; what is asked of a sequence, the
    first one answers. In a step the slot of a token is a tuple, and a copy (group, from block, to block). A prefix is
    found as far as all groups have it. OutOfBlocks is raised before any group has changed.
    """

    def __init__(self, *groups: BlockManager) -> None:
        self.groups, self.blocks, self.block_size = groups, groups[0].blocks, groups[0].block_size

    @property
    def free_blocks(self) -> int:
        """Of the first group."""
        return self.groups[0].free_blocks

    def __contains__(self, name: Hashable) -> bool:
        """Whether there is a sequence ``name``."""
        return name in self.groups[0]

    def table(self, name: Hashable) -> tuple[int, ...]:
        """The blocks of a sequence in the first group."""
        return self.groups[0].table(name)

    def length(self, name: Hashable) -> int:
        """Tokens of a sequence."""
        return self.groups[0].length(name)

    def add(self, name: Hashable, tokens: Iterable[int] = ()) -> int:
        """Begin a sequence in all groups; returns how many of its first ``tokens`` all of them have."""
        tokens = list(tokens)
        found = min(group.num_cached_tokens(tokens) for group in self.groups)
        for group in self.groups:
            group.add(name, tokens[: found + 1])
        return found

    def append(self, name: Hashable, tokens: list[int]) -> Appended:
        """Make room for more tokens in all groups."""
        for group in self.groups:
            if not group.fits(name, len(tokens)):
                raise OutOfBlocks(f"{len(tokens)} more tokens of {name!r} don't fit where the window is {group.window}")
        steps = [group.append(name, tokens) for group in self.groups]
        copies = [(index, *pair) for index, step in enumerate(steps) for pair in step.copies]
        return Appended([*zip(*(step.slots for step in steps))], copies)

    def fork(self, name: Hashable, child: Hashable) -> None:
        """Begin ``child`` with all that ``name`` has."""
        for group in self.groups:
            group.fork(name, child)

    def truncate(self, name: Hashable, length: int) -> None:
        """Forget the tokens of a sequence from ``length`` on."""
        for group in self.groups:
            group.truncate(name, length)

    def free(self, name: Hashable) -> None:
        """End a sequence."""
        for group in self.groups:
            group.free(name)
