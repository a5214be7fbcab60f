"""The command line: ``python -m attnlab_course.bench --help``.

Options are read before the libraries are imported, because threads and devices are settled when those are.
"""

import argparse
import importlib
import os
import subprocess
import sys
from collections.abc import Sequence

from attnlab.core.arguments import FLOATS, LIBRARIES
from attnlab_course.bench.contestants import EVERYONE

SDPA = "torch.nn.functional.scaled_dot_product_attention"
QUESTIONS = {
    "small": "small calls, beside each library's own fused call and beside the bare formula",
    "decode": "a decoding step with a cache of 16 to 65,536 keys, or of --m",
    "paged": "a decoding step through pages, beside keys in a row",
    "linear": "linear attention beside softmax, from N = 256 on, or for each of --n",
    "ring": "ring attention on 1, 2 and 4 processes, beside one device",
    "serve": "tokens per second of the server, beside the model alone",
}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the options, measure, print."""
    options = parser().parse_args(arguments)
    if options.heads % (options.kv_heads or options.heads):
        parser().error(f"--kv-heads {options.kv_heads} does not divide --heads {options.heads}")
    environment(options)
    from attnlab_course.bench.question import describe_machine, print_answer

    print(f"{describe_machine(options.device)}. Medians of interleaved rounds.\n")
    for question in importlib.import_module(f"attnlab_course.bench.{options.question}").make_questions(options):
        print_answer(question, options.rounds, options.seconds)


def parser() -> argparse.ArgumentParser:
    """The options of the command line and what they mean."""
    p = argparse.ArgumentParser(
        prog="python -m attnlab_course.bench", formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"Every algorithm in every library, side by side; ratios are to\n{SDPA} (sdpa).",
    )  # fmt: skip
    add = p.add_argument
    add("--n", type=_positive_integer, nargs="+", help="queries (2048); several lengths: a table each")
    add("--m", type=_positive_integer, help="keys; default: as many as queries")
    add("--batch", type=_positive_integer, default=1, help="batch size (1)")
    add("--heads", type=_positive_integer, default=8, help="query heads (8)")
    add("--kv-heads", type=_positive_integer, help="key/value heads; default: as many as query heads")
    add("--d", type=_positive_integer, nargs="+", default=[64], help="size of a query, key and value (64)")
    add("--dtype", nargs="+", choices=FLOATS, default=["float32"], help="of the arrays (float32)")
    add("--causal", nargs="?", choices=["no", "yes", "both"], const="yes", default="no", help="hide later keys")
    add("--window", type=int, nargs=2, metavar=("LEFT", "RIGHT"), help="hide distant keys; -1 is unbounded")
    add("--only", choices=["forward", "forward+backward"], help="one pass; default: both")
    add("--methods", nargs="+", choices=EVERYONE, metavar="NAME", help=f"{', '.join(EVERYONE)}; default: all that fit")
    add("--libraries", nargs="+", choices=[*LIBRARIES], help="default: all that are installed")
    add("--device", choices=["cpu", "cuda"], default="cpu", help="where the arrays are (cpu)")
    add("--threads", type=_positive_integer, help="cores for this process; default: all that it may use")
    add("--rounds", type=_positive_integer, help="calls of each contestant; default: 3 to 31, as --seconds allow")
    add("--seconds", type=float, default=12, help="for the rounds of one table, about (12)")
    add("--memory", action=argparse.BooleanOptionalAction, help="measure extra memory; default: up to N = 4096")
    others = p.add_argument_group("other questions", "They heed --rounds, --seconds, --threads, and what they name.")
    one = others.add_mutually_exclusive_group()
    for name, text in QUESTIONS.items():
        one.add_argument(f"--{name}", action="store_const", dest="question", const=name, default="compare", help=text)
    return p


def _positive_integer(text: str) -> int:
    """An integer of at least 1."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def environment(options: argparse.Namespace) -> None:
    """Settle devices and threads; with ``--threads`` start again, as NumPy has read its variables by now."""
    if options.device == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    else:
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # the GPU's memory is for both libraries
    if "float64" in options.dtype:
        os.environ["JAX_ENABLE_X64"] = "1"
    if options.threads:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
        wanted = dict.fromkeys(THREADS, str(options.threads))
        if any(os.environ.get(name) != count for name, count in wanted.items()):
            again = [sys.executable, "-m", "attnlab_course.bench", *sys.argv[1:]]
            sys.exit(subprocess.call(again, env={**os.environ, **wanted}))


if __name__ == "__main__":
    main()
