"""The ladder: what distinguishes the six algorithms, once. Plots, benchmarks, README and tests read it."""

from typing import NamedTuple


class Rung(NamedTuple):
    """Facts about one algorithm.

    lesson: where it is derived. idea: in a few words. maximum: whose is subtracted, "none", that of the "row", or that
    of a "part" (read so far, or its own). at_once: the scores that exist at a time, a "matrix", those of a "key", of a
    "chunk" or of a "tile". blocks: the names of its block sizes, queries first. memory: extra memory of the forward,
    per head, without a scaled copy of Q (attnlab.costs.extra_elements has it). program: what
    attnlab_course.instruments.machine calls it. color: in every figure (Okabe and Ito's palette, safe for color-blind
    readers).
    """

    lesson: str
    idea: str
    maximum: str
    at_once: str
    blocks: tuple[str, ...]
    memory: str
    program: str
    color: str

    @property
    def safe(self) -> bool:
        """Whether any finite scores are served: they are shifted, by the maximum of the row or of a part."""
        return self.maximum != "none"


CHUNKS, TILES = ("query_chunk_size", "key_chunk_size"), ("block_q", "block_k")
LADDER = {
    "naive": Rung("01", "the bare formula, all scores held",
                  "none", "matrix", (), "N·M", "standard", "#D55E00"),
    "safe": Rung("02", "shift each row by its maximum",
                 "row", "matrix", (), "N·M", "standard", "#E69F00"),
    "lazy": Rung("04", "divide at the end, keep no score",
                 "none", "key", (), "N·(Dv + 2)", "lazy", "#56B4E9"),
    "online": Rung("04", "divide at the end, running maximum",
                   "part", "key", (), "N·(Dv + 2)", "online", "#0072B2"),
    "chunked": Rung("05", "summaries of chunks, combined",
                    "part", "chunk", CHUNKS, "Cq·Ck + Cq·(M / Ck)·(Dv + 2)",
                    "chunked", "#009E73"),
    "tiled": Rung("08", "the running fold, tile by tile",
                  "part", "tile", TILES, "a few tiles, whatever N and M",
                  "flash2", "#CC79A7"),
}  # fmt: skip
"""Every algorithm by its name, from the bottom of the ladder to the top."""
