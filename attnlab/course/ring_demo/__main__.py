"""The command line of the demo: under torchrun a rank of torch.distributed, with --jax all devices of JAX."""

import argparse
import os

from attnlab.measure import honest_xla
from attnlab.course.ring_demo import __doc__ as description


def main() -> None:
    """Read the options, and take the step."""
    parser = argparse.ArgumentParser(
        "attnlab.course.ring_demo", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jax", type=int, metavar="DEVICES", help="JAX on so many CPU devices, instead of torchrun")
    parser.add_argument("--length", type=int, default=1023, help="tokens, padded where they do not divide (1023)")
    parser.add_argument("--layout", default="zigzag", choices=["contiguous", "striped", "zigzag"])
    parser.add_argument("--timeout", type=float, default=60, help="seconds of silence after which a rank is lost (60)")
    options = parser.parse_args()
    if options.jax is not None:
        honest_xla()  # before JAX is imported, or its account of memory is not whole
        from attnlab.course.ring_demo.jax import step

        step(options.jax, options.length, options.layout)
    elif "RANK" not in os.environ:
        parser.error("start it by torchrun, which says which rank a process is, or with --jax")
    else:
        from attnlab.course.ring_demo.torch import rank

        rank(options.length, options.layout, options.timeout)


if __name__ == "__main__":
    main()
