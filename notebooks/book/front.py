"""The band of the first page: the claim, where to begin, the walk of the tile, and what both algorithms hold and move.

All of it is computed: the walk by the counting machine, the sizes behind the slider by the closed forms of costs.
"""

import json

from attnlab_course.instruments import machine
from attnlab_course.plots.moving.walk import run, walk

from attnlab import costs
from attnlab.measure import binary

D = 64
SIZES = [2**k for k in range(10, 21)]

BAND = """
```{{raw}} html
<div class="band">
<div class="claim">
<p class="big">Attention without the matrix</p>
<p>How FlashAttention, caches, pages and rings of devices work: derived, run, counted. One CPU is enough.</p>
<p><a class="button" href="00_start_here.html">Start</a> <a class="button quiet" href="#install">Install</a></p>
<div class="scale" data-sizes='{sizes}'>
<label>One head in float32, N = <output>32,768</output>
<input type="range" min="0" max="{last}" value="5" aria-label="number of tokens"></label>
<table><thead><tr><th><span class="only-said">algorithm</span></th><th>holds</th><th>moves</th></tr></thead><tbody>
<tr><th>naive</th>{naive}</tr><tr><th>tiled</th>{tiled}</tr></tbody></table>
</div>
</div>
<div class="walk">{walk}
<p class="key">Q queries, K keys, V values, O output. Pink: scores held right now. Gray: computed, used, forgotten.</p>
</div>
</div>
```
"""


def band() -> str:
    """The band, as Markdown."""
    walks = walk({"64 queries, 64 keys, in tiles of 8 by 8": run(machine.flash_forward, 64, 64, block_q=8, block_k=8)})
    sizes = [(f"{n:,}", *sizes_of("naive", n), *sizes_of("tiled", n)) for n in SIZES]
    cells = [f"<td>{text}</td>" for text in sizes[5][1:]]
    shown = walks.page().replace('class="attnlab-moving"', 'class="attnlab-moving" data-autoplay="1"', 1)
    return BAND.format(
        sizes=json.dumps(sizes), last=len(SIZES) - 1, naive="".join(cells[:2]), tiled="".join(cells[2:]), walk=shown
    )


def sizes_of(method: str, n: int) -> tuple[str, str]:
    """What one head of n tokens holds beyond inputs and output, and moves, in float32."""
    held, cost = 4 * costs.extra_elements(method, n, n, D, D), costs.forward(method, n, n, D, D, itemsize=4)
    return binary(held, 2), binary(4 * cost.elements, 2)
