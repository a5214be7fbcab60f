"""Who runs: every algorithm in every library, the libraries' own attention, and their matrix products.

A contestant is called "jax tiled" and so on. "torch sdpa" is torch.nn.functional.scaled_dot_product_attention, the
unit of all ratios; "jax nn" is jax.nn.dot_product_attention; "numpy onnxruntime" and "numpy openvino" take part where
they're installed; "products" is one large square matrix product.
"""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

from attnlab.core.arguments import LIBRARIES
from attnlab_course.bench import peers
from attnlab_course.bench.setting import Setting
from attnlab_course.instruments import hardware
from attnlab_course.ladder import LADDER

ORDER = tuple(reversed(LIBRARIES))  # PyTorch, whose own function is the unit, comes first
OWN = {"torch": ("sdpa",), "jax": ("nn",), "numpy": ()}
SDPA = {
    "sdpa-flash": "FLASH_ATTENTION", "sdpa-cudnn": "CUDNN_ATTENTION", "sdpa-efficient": "EFFICIENT_ATTENTION",
    "sdpa-math": "MATH",
}  # fmt: skip
"""PyTorch's own, one by one, on a GPU."""

KERNELS = {"torch": ("triton", "flex"), "jax": ()}  # on a GPU: tiled as a kernel of ours, FlexAttention compiled

SLOW = tuple(name for name, method in LADDER.items() if method.at_once == "key")
QUADRATIC = (*(name for name, method in LADDER.items() if method.at_once == "matrix"), "nn", "sdpa-math")
EVERYONE = (*LADDER, *(name for names in OWN.values() for name in names), *SDPA, *KERNELS["torch"], *peers.NEEDS)


@dataclass(frozen=True)
class Contestant:
    """A function of a library."""

    library: str
    method: str

    @property
    def name(self) -> str:
        """Library and method, such as "jax tiled"."""
        return f"{self.library} {self.method}"


UNIT = Contestant("torch", "sdpa")
GROUPED = Contestant("torch", "grouped")
"""The same on a view, for one query: enable_gqa repeats the keys in memory."""


def choose_contestants(
    setting: Setting, libraries: Sequence[str] | None = None, methods: Sequence[str] | None = None
) -> tuple[list[Contestant], dict[str, str]]:
    """Those who take part, the unit and the products always among them; and why others do not, by name.

    Products come first: their first call warms up the library's threads, whatever the length. What takes very long
    or does not fit into memory takes part only where ``methods`` names it.
    """
    present, notes = find_libraries(setting.device, libraries or ORDER)
    found = [UNIT] if "torch" not in present and importlib.util.find_spec("torch") else []
    for library in present:
        found.append(Contestant(library, "products"))
        everyone = list_methods(library, setting.device)
        for method in everyone:
            contestant = Contestant(library, method)
            if contestant == UNIT or method in (methods or everyone):
                reason = None if methods else explain_absence(method, setting)
                if setting.gradient and library == "numpy" and method != "tiled":
                    reason = reason or "no gradient in NumPy"  # tiled alone has a backward pass there
                notes |= {contestant.name: reason} if reason else {}
                found += [] if reason else [contestant]
    return found, notes


def find_libraries(device: str, libraries: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The libraries that can run on the device, and why others cannot."""
    missing = [name for name in libraries if not importlib.util.find_spec(name)]
    notes = dict.fromkeys(missing, "not installed")
    present = [name for name in ORDER if name in libraries and name not in missing]
    if device == "cuda":
        import jax

        cannot = ["numpy"] + ["jax"] * (jax.default_backend() != "gpu")
        notes |= {name: "does not run on this GPU" for name in present if name in cannot}
        present = [name for name in present if name not in cannot]
    return present, notes


def list_methods(library: str, device: str) -> tuple[str, ...]:
    """Methods of a library on a device, its own function first."""
    if device == "cpu":
        return *OWN[library], *LADDER, *(peers.list_installed() if library == "numpy" else ())
    return *OWN[library], *(SDPA if library == "torch" else ()), *LADDER, *KERNELS[library]


def explain_absence(method: str, setting: Setting) -> str | None:
    """Why a method can't do this setting or isn't worth its time or memory in it, if so."""
    if method in peers.NEEDS:
        return peers.explain_refusal(setting)
    if method == "flex" and setting.padding:
        return "takes no mask as an array"
    longest = 256 if setting.gradient else 1024
    if method in SLOW and setting.keys > longest:
        return f"left out beyond {longest} keys, because they take one at a time; --methods asks for them by name"
    scores = 4 * setting.batch * setting.heads * setting.n * setting.keys
    if method in QUADRATIC and 4 * scores > hardware.memory_size() / 2:
        return f"left out, because all scores are {scores / 2**30:.0f} GiB; --methods asks for them by name"
    return None
