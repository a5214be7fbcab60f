"""The command line of the demo: under torchrun a rank of torch.distributed, with --jax all devices of JAX."""

import argparse
import os
from collections.abc import Callable

from attnlab.measure import honest_xla
from attnlab_course import model
from attnlab_course.lessons.lesson21.ring_demo import __doc__ as description


def at_least(least: int) -> Callable[[str], int]:
    """The type of an option: whole numbers from ``least`` on."""
    def whole(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least {least}")
        return int(text)

    return whole


def main() -> None:
    """Read the options, and take the step."""
    parser = argparse.ArgumentParser(
        "attnlab_course.lessons.lesson21.ring_demo", description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--jax", type=at_least(1), metavar="DEVICES", help="JAX on so many CPU devices, not torchrun")
    parser.add_argument("--length", type=at_least(2), default=1023, help="tokens, padded if need be (1023)")
    parser.add_argument("--layout", default="zigzag", choices=["contiguous", "striped", "zigzag"])
    options = parser.parse_args()
    if options.length > (most := len(model.excerpt())):
        parser.error(f"argument --length: the text has {most:,} tokens")
    if options.jax is not None:
        honest_xla()  # before JAX is imported, or its account of memory is not whole
        from attnlab_course.lessons.lesson21.ring_demo.jax import step

        step(options.jax, options.length, options.layout)
    elif "RANK" not in os.environ:
        parser.error("start it by torchrun, which says which rank a process is, or with --jax")
    else:
        from attnlab_course.lessons.lesson21.ring_demo.torch import rank

        rank(options.length, options.layout)


if __name__ == "__main__":
    main()
