"""``python -m attnlab.bench`` (``make bench``): every algorithm in every library, side by side in one run.

All contestants are called in turn, round after round, and medians are taken, so that the machine's moods fall on all
alike. Times are given as ratios to PyTorch's scaled_dot_product_attention, and as fractions of the rate at which the
contestant's own library multiplies large matrices. ``--overhead`` measures what a small call costs
beyond its arithmetic, ``--decode`` and ``--paged`` steps of decoding, ``--serve`` the server beside the model alone,
``--linear`` the forms of linear attention against softmax.
"""

from attnlab.bench.calls import prepare
from attnlab.bench.contestants import Contestant
from attnlab.bench.setting import Setting
from attnlab.bench.timing import interleave, measure, noise, ready

__all__ = ["Contestant", "Setting", "interleave", "measure", "noise", "prepare", "ready"]
