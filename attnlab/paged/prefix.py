"""Which block holds which tokens after which others: prefixes by chained content hash. Array-free."""


class Prefix:
    """A full block of tokens and all that came before it; ``parent`` is the prefix without this block.

    The hash is chained, h = hash(parent's h, tokens): it stands for the whole prefix and costs no more than a block.
    Equality compares tokens too: prefixes that happen to share a hash are not mistaken for one another.
    """

    def __init__(self, parent: "Prefix | None", tokens: tuple[int, ...]) -> None:
        self.parent, self.tokens = parent, tokens
        self._hash = hash((hash(parent), tokens))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        a, b = self, other
        while a is not b:  # equal prefixes are kept as one object, so this seldom goes far
            if not (isinstance(a, Prefix) and isinstance(b, Prefix)) or a._hash != b._hash or a.tokens != b.tokens:
                return False
            a, b = a.parent, b.parent
        return True


class Prefixes:
    """The blocks whose contents can be found: each holds a full block of known tokens."""

    def __init__(self) -> None:
        self._holders: dict[Prefix, list[int]] = {}  # equal contents may have been computed twice
        self._prefix: dict[int, Prefix] = {}

    def __contains__(self, block: int | None) -> bool:
        return block in self._prefix

    def record(self, block: int, prefix: Prefix) -> Prefix:
        """``block`` has been filled and can be found from now on; returns ``prefix``, or its equal that came before."""
        holders = self._holders.setdefault(prefix, [])
        holders.append(block)
        self._prefix[block] = prefix
        self._prefix[block] = self._prefix[holders[0]]
        return self._prefix[block]

    def forget(self, block: int) -> None:
        """``block`` is about to hold something else."""
        prefix = self._prefix.pop(block)
        self._holders[prefix].remove(block)
        if not self._holders[prefix]:
            del self._holders[prefix]

    def find(self, tokens: list[int], block_size: int) -> tuple[list[int], Prefix | None]:
        """The blocks that hold the longest prefix of ``tokens``, which is returned too; the last token is left out.

        Whoever comes to a prompt that is there as a whole still has to compute its last token's query.
        """
        found, prefix = list[int](), None
        for start in range(0, len(tokens) - block_size, block_size):
            longer = Prefix(prefix, tuple(tokens[start : start + block_size]))
            if longer not in self._holders:
                break
            found.append(self._holders[longer][0])
            prefix = self._prefix[found[-1]]
        return found, prefix
