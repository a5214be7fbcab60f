"""The command line: ``python -m attnlab_course.serve --help``.

Prompts are the lines of a file, served together, or what is typed, one after the other. A text goes to the standard
output when its request is done, what was refused and the summary to the standard error.
"""

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

from attnlab.core.arguments import LIBRARIES
from attnlab_course.model import FIRST, NAMES, Model, load
from attnlab_course.serve.drafts import ModelDraft, in_bits, lookup
from attnlab_course.serve.engine import Engine
from attnlab_course.serve.request import Request, Timestamp
from attnlab_course.serve.trace import StepRecord

import numpy as np

OPTIONS = "max_tokens", "seed", "temperature", "top_k", "top_p", "samples", "beams"

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""The model's products are small: threads that wait for one another make them up to ten times slower."""

DRAFTS = {"lookup": lambda model: lookup, "int4": lambda model: ModelDraft(in_bits(model, 4))}


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the options, then prompts; serve them, and sum up.

    Exit status 2 where the options are wrong or nothing could be served, 130 after Ctrl-C.
    """
    options = parser().parse_args(arguments)
    try:
        run(options)
    except BrokenPipeError:  # who read the output has seen enough; nothing more is written, also not at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(options: argparse.Namespace) -> None:
    """Serve what is typed, or the lines of the file."""
    engine = start(options)
    warm_up(engine)
    if options.file is None and sys.stdin.isatty():
        for number, prompt in enumerate(ask(), 1):
            if not serve(engine, {number: prompt}, options)[1]:
                engine = start(options)  # the answer has ended; the next prompt finds an empty pool
        return
    some, whole = serve(engine, dict(enumerate(read(options.file), 1)), options)
    if not whole:
        sys.exit(130)
    if not some:
        parser().exit(2, f"nothing was served: {options.file or 'the standard input'} has no prompt to serve\n")


def start(options: argparse.Namespace) -> Engine:
    """The engine that the options ask for; wrong ones end the command, in one line that names the option."""
    if options.temperature is None:
        options.temperature = 0.0 if options.beams else 0.8
    try:
        model = load(options.model, options.library)
        for name in ("blocks", "block_size"):
            if getattr(options, name) < 1:
                raise ValueError(f"{name} is {getattr(options, name)}; it must be at least 1")
        if options.rate is not None and not 0 < options.rate < math.inf:
            raise ValueError(f"rate is {options.rate}; it must be above 0")
        Request(0, [0], arrival=Timestamp(0, 0.0), **{name: getattr(options, name) for name in OPTIONS})
        check_memory(model, options)
        draft = DRAFTS[options.draft](model) if options.draft else None
        return Engine(
            model, options.blocks, options.block_size, options.budget, draft=draft, guesses=options.guesses
        )
    except (ValueError, ModuleNotFoundError) as error:
        name = str(error).partition(" ")[0]
        parser().error(f"argument --{name.replace('_', '-')}: {error}" if name in vars(options) else str(error))


def check_memory(model: Model, options: argparse.Namespace) -> None:
    """Ask for the memory of the pool as a whole: seconds, and gigabytes, before the engine would find out."""
    c = model.config
    count = 2 * c.layers * c.kv_heads * c.d * options.blocks * options.block_size
    try:
        np.empty(count, np.float32)
    except (MemoryError, ValueError):
        size = f"{4 * count / 2**30:,.0f} GiB"
        raise ValueError(f"blocks is {options.blocks}; their keys and values would take {size}") from None


def warm_up(engine: Engine) -> None:
    """Serve a prompt that nobody asked for: what is only done once, such as compiling, is on no request's clock."""
    room = engine.manager.blocks * engine.manager.block_size
    if room > 1:
        engine.submit([0] * min(engine.budget, room - 1), 2)
        engine.run()


def read(path: Path | None) -> list[bytes]:
    """The lines of a file, or of the standard input, as bytes; an error of the command where it can't be read."""
    try:
        text = path.read_bytes() if path else sys.stdin.buffer.read()
    except OSError as error:
        parser().error(f"cannot read {path}: {error.strerror}")
    return [line.removesuffix(b"\r") for line in text.removesuffix(b"\n").split(b"\n")] if text else []


def ask() -> Iterator[bytes]:
    """Lines from the terminal, until its input ends or Ctrl-C."""
    while True:
        try:
            yield input("prompt> ").encode("utf-8", "surrogateescape")
        except (EOFError, KeyboardInterrupt):
            print()
            return


def submit(engine: Engine, number: int, prompt: bytes, options: argparse.Namespace) -> Request | None:
    """The request of a line, if the engine takes it; or else why not."""
    if not prompt:
        print(f"line {number} is empty and is left out", file=sys.stderr)
        return None
    try:
        return engine.submit(prompt, **{name: getattr(options, name) for name in OPTIONS})
    except ValueError as error:
        print(f"refused line {number}, {prompt[:40]!r}: {error}", file=sys.stderr)
        return None


def arrivals(prompts: dict[int, bytes], rate: float | None) -> list[tuple[float, int, bytes]]:
    """(second, line, prompt), the last one first: all at once, or ``rate`` a second on average, at random moments."""
    gaps = np.random.default_rng(0).exponential(1 / rate, len(prompts)) if rate else np.zeros(len(prompts))
    return [(float(second), *line) for second, line in zip(np.cumsum(gaps), prompts.items())][::-1]


def serve(engine: Engine, prompts: dict[int, bytes], options: argparse.Namespace) -> tuple[bool, bool]:
    """Serve lines as they arrive, print each text when it is done, then the summary.

    Returns whether there was any to serve, and whether all were served: Ctrl-C ends it with what is there.
    """
    coming, begin = arrivals(prompts, options.rate), time.monotonic()
    left, taken = dict[int, Request](), list[Request]()
    try:
        while coming or engine.requests:
            while coming and coming[-1][0] <= (now := time.monotonic() - begin):
                _, number, prompt = coming.pop()
                if options.rate:
                    print(f"{now:.2f} s: line {number} arrives, {len(left)} are being served", file=sys.stderr)
                if request := submit(engine, number, prompt, options):
                    taken.append(request)
                    left[number] = request
            if engine.requests:
                engine.step()
            elif coming:
                time.sleep(max(coming[-1][0] - (time.monotonic() - begin), 0))
            for number in [number for number, request in left.items() if request.done]:
                print_texts(number, left.pop(number))
    except KeyboardInterrupt:
        for number, request in left.items():
            print_texts(number, request)
        done, asked = len(taken) - len(left), len(taken) + len(coming)
        print(f"interrupted: {done} of {asked} requests are done", file=sys.stderr)
    if taken:
        print(sum_up(engine, taken), file=sys.stderr)
    return bool(taken), not left and not coming


def sum_up(engine: Engine, requests: list[Request]) -> str:
    """Throughput, latencies and memory in one line, of ``requests`` of an engine, at least one, done or not."""
    sequences = [sequence for request in requests for sequence in request.sequences if sequence.moments]
    if not sequences:
        return "no token was made"
    start, end = min(one.arrival for one in requests), max(one.moments[-1] for one in sequences)
    trace, seconds = engine.trace[start.step : end.step], end.seconds - start.seconds
    sums, new = StepRecord(*map(sum, zip(*trace))), sum(len(one.moments) for one in sequences)
    first = median(one.first_token.seconds - one.arrival.seconds for one in requests if one.first_token)
    said = [
        f"throughput {new / seconds:,.0f} tokens/s: {new:,} new tokens in {seconds:.2f} s, {len(trace):,} steps",
        f"the first token after {1000 * first:,.1f} ms",
        f"at most {max(one.blocks for one in trace):,} of {engine.manager.blocks:,} blocks held",
        f"{sums.preempted:,} preemptions",
    ]
    if later := [b.seconds - a.seconds for one in sequences for a, b in pairwise(one.moments)]:
        said[1] += f", then one every {1000 * median(later):,.1f} ms (medians)"
    if sums.guessed:
        said += [f"{sums.accepted:,} of {sums.guessed:,} guesses accepted ({sums.accepted / sums.guessed:.0%})",
                 f"{1 + sums.accepted / sums.decoded:.2f} tokens per call of a sequence"]  # fmt: skip
    return "; ".join(said)


def print_texts(line: int, request: Request) -> None:
    """[line.sample], the prompt and what follows it, of each sample or beam."""
    prompt = bytes(token for token in request.prompt if token != FIRST)
    for sample, text in enumerate(request.texts):
        print(f"[{line}.{sample}] {(prompt + text).decode('utf-8', 'replace')}", flush=True)


def parser() -> argparse.ArgumentParser:
    """The options of the command line and what they mean."""
    p = argparse.ArgumentParser(
        prog="python -m attnlab_course.serve",
        description="Continue texts with a small language model that was trained on Python sources. Type a prompt such "
        "as 'def f(x):', or give a file with one prompt a line: all its prompts are then served at once.",
    )
    add = p.add_argument
    add("file", nargs="?", type=Path, help="The file of prompts; without it they are typed, or piped.")
    add("--max-tokens", type=int, default=64, help="How many bytes to generate for each prompt (64).")
    add("--samples", type=int, default=1, help="How many texts to draw for each prompt (1).")
    add("--temperature", type=float, help="How freely to draw; 0 takes the likeliest byte (0.8, and 0 for --beams).")
    add("--top-k", type=int, help="Draw from so many of the likeliest bytes only.")
    add("--top-p", type=float, default=0.9, help="Draw from the fewest bytes of this probability together (0.9).")
    add("--seed", type=int, default=0, help="Another seed draws other texts; equal lines draw the same one (0).")
    add("--beams", type=int, help="Search for the likeliest texts with so many beams, and draw nothing.")
    add("--rate", type=float, help="Let so many lines of the file arrive a second, at random; all at once without it.")
    add("--blocks", type=int, default=256, help="How many blocks the pool of keys and values has (256).")
    add("--block-size", type=int, default=16, help="How many tokens a block holds (16).")
    add("--budget", type=int, default=64, help="How many tokens a step may feed (64).")
    add("--draft", choices=[*DRAFTS], help="Guess tokens: look them up in the text, or ask the model in 4 bits.")
    add("--guesses", type=int, default=4, help="How many tokens --draft guesses for a sequence and step (4).")
    add("--model", choices=NAMES, default="base", help="Which weights to load (base).")
    add("--library", choices=[*LIBRARIES], default="numpy", help="Which library computes (numpy).")
    return p


if __name__ == "__main__":
    if os.name == "posix" and not ONE_THREAD.keys() & os.environ.keys():  # they are read when a library is loaded
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | ONE_THREAD)
    main()
