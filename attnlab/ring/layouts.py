"""Which tokens a rank has, and arrays cut and joined accordingly. Array-free."""

from typing import Any

from attnlab.core.dispatch import backend
from attnlab.ring.call import check_layout
from attnlab.ring.schedule import Schedule, positions_of


def positions(length: int, devices: int, layout: str = "contiguous") -> list[list[int]]:
    """Position of the token in every slot of every shard, one list a rank; −1 is padding.

    ``layout``: "contiguous", rank r has the r-th piece; "striped", tokens r, r + devices, …; "zigzag", the r-th and the
    (2 devices − 1 − r)-th of 2 devices pieces. Array-free. Raises TypeError or ValueError.
    """
    return positions_of(check_layout(length, devices, layout))


def shard(x: Any, devices: int, layout: str = "contiguous", *, axis: int = -2) -> list:
    """The shards of ``x``, one a rank: its tokens along ``axis`` at ``positions``, padded with 0.

    Any array of one of the three libraries. In PyTorch a rank takes its own, ``shard(x, P)[rank]``; in JAX the shards
    joined are what shard_map cuts.
    """
    module = backend("x", x, "attnlab.ring")
    return [module.take(x, slots, axis) for slots in positions(x.shape[axis], devices, layout)]


def unshard(shards: list, length: int, layout: str = "contiguous", *, axis: int = -2) -> Any:
    """The ``length`` tokens of ``shards`` in their order: the inverse of shard, padding dropped."""
    ring = check_layout(length, len(shards), layout)
    for rank, x in enumerate(shards):
        if x.shape[axis] != ring.size:
            raise ValueError(f"shards[{rank}] has length {x.shape[axis]}; {length} tokens, {layout}, make {ring.size}")
    module = backend("shards[0]", shards[0], "attnlab.ring")
    return module.take(module.join(list(shards), axis), _slots(ring), axis)


def stripe(x: Any, devices: int, *, axis: int = -2) -> Any:
    """``x`` with its tokens in the order 0, P, 2P, …, 1, P + 1, …: cut in P pieces, they are the stripes.

    Where P = ``devices`` does not divide the length, shorter stripes are padded with 0.
    """
    return backend("x", x, "attnlab.ring").join(shard(x, devices, "striped", axis=axis), axis)


def unstripe(x: Any, devices: int, *, length: int | None = None, axis: int = -2) -> Any:
    """The inverse of stripe: the ``length`` tokens in their order, by default as many as ``x`` has."""
    ring = check_layout(x.shape[axis] if length is None else length, devices, "striped")
    if ring.size * devices != x.shape[axis]:
        fill = ring.size * devices
        raise ValueError(f"x has length {x.shape[axis]}; {ring.length} tokens in {devices} stripes fill {fill}")
    return backend("x", x, "attnlab.ring").take(x, _slots(ring), axis)


def _slots(ring: Schedule) -> list[int]:
    """Where each token is in the shards joined."""
    flat = [position for slots in positions_of(ring) for position in slots]
    found = {position: slot for slot, position in enumerate(flat)}
    return [found[position] for position in range(ring.length)]
