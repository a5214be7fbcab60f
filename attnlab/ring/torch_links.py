"""What the processes of torch.distributed say to one another: messages, and an agreement before the first."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from attnlab.core.arrays.torch import Array
from attnlab.ring.turns import check_agreement

import torch
import torch.distributed as dist


SENT: Counter = Counter()
"""Bytes that this process has sent in messages, by rank of the group: an instrument, to be cleared before use."""
AGREED: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""What the ranks of a group have agreed to do before, and need not compare again."""


class Link(NamedTuple):
    """The place of this process in a group: it is rank ``index`` of ``size``."""

    group: Any
    index: int
    size: int

    @classmethod
    def of(cls, group: Any) -> "Link":
        """The place in a process group, None for the default one; ValueError where there is none."""
        if not dist.is_initialized():
            raise ValueError("torch.distributed has no process group; call init_process_group first, as under torchrun")
        if dist.get_rank(group) < 0:
            raise ValueError("group does not hold this process; only its members may call")
        return cls(group, dist.get_rank(group), dist.get_world_size(group))

    def agree(self, words: str, refused: bool = False) -> None:
        """Compare what the ranks are about to do: a ValueError on all of them where they differ, and nobody hangs.

        A rank whose own arguments were ``refused`` says so instead, and has its own error to raise. What a group has
        agreed on once it doesn't compare again, as that costs two collectives and a pickle: so it is for the first call
        of each kind that this promises anything.
        """
        agreed = AGREED.setdefault(self.group or dist.group.WORLD, set())
        if words in agreed and not refused:
            return
        every: list[Any] = [None] * self.size
        with self.watching("the others"):
            dist.all_gather_object(every, (words, refused), group=self.group)
        if refused:
            return
        for rank, (theirs, was_refused) in enumerate(every):
            if was_refused:
                raise ValueError(f"the arguments of rank {rank} were refused: {theirs}")
        check_agreement([theirs for theirs, _ in every])
        agreed.add(words)

    def exchange(
        self, sent: list[Array], to: int, like: list[Array], source: int, tag: int = 0
    ) -> Callable[[], list[Array]]:
        """Begin to send arrays, and to receive arrays ``like`` those named; call the result to wait for them."""
        arrived = [torch.empty_like(x) for x in like]
        sides = (dist.isend, sent, to), (dist.irecv, arrived, source)
        messages = [
            dist.P2POp(how, x, group=self.group, tag=tag + i, group_peer=peer)
            for how, arrays, peer in sides for i, x in enumerate(arrays)
        ]  # fmt: skip
        SENT[to] += sum(x.nbytes for x in sent)
        with self.watching(f"rank {source} or rank {to}"):
            works = dist.batch_isend_irecv(messages) if messages else []

        def wait() -> list[Array]:
            with self.watching(f"rank {source} or rank {to}"):
                for work in works:
                    work.wait()
            return arrived

        return wait

    def pass_on(self, sent: list[Array], like: list[Array], tag: int = 0) -> Callable[[], list[Array]]:
        """Exchange in a ring: what is sent goes to the next rank, what arrives comes from the one before."""
        if self.size == 1:
            return lambda: sent
        return self.exchange(sent, (self.index + 1) % self.size, like, (self.index - 1) % self.size, tag)

    @contextmanager
    def watching(self, others: str) -> Iterator[None]:
        """Say who was waited for, where a connection broke or the group's timeout ran out."""
        try:
            yield
        except RuntimeError as error:
            raise RuntimeError(
                f"rank {self.index} of {self.size} lost {others}: a process died, called something else, or said "
                "nothing for longer than the timeout with which its group was made"
            ) from error
