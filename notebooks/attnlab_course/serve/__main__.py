"""The command line: ``python -m attnlab_course.serve --help``.

Prompts are the lines of a file, served together, or what is typed, one after the other. Text goes to the standard
output as it comes, the summary and what was refused to the standard error.
"""

import argparse
import codecs
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from attnlab.core.arguments import LIBRARIES
from attnlab.core.dispatch import missing
from attnlab_course.model import NAMES, Model, load
from attnlab_course.serve.drafts import ModelDraft, in_bits, lookup
from attnlab_course.serve.engine import Engine
from attnlab_course.serve.request import Moment, Request
from attnlab_course.serve.summary import summary
from attnlab_course.serve.transcript import Transcript, objects

import numpy as np

OPTIONS = "max_tokens", "seed", "temperature", "top_k", "top_p", "samples", "beams"

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
    if options.file is None and sys.stdin.isatty():
        for number, prompt in enumerate(typed(), 1):
            if not serve(engine, submit(engine, {number: prompt}, options), options, live=True):
                engine = start(options)  # the answer has ended; the next prompt finds an empty pool
        return
    prompts = dict(enumerate(read(options.file), 1))
    for number in [number for number, prompt in prompts.items() if not prompt]:
        print(f"line {number} is empty and is left out", file=sys.stderr)
        del prompts[number]
    requests = submit(engine, prompts, options)
    if not requests:
        parser().exit(2, f"nothing was served: {options.file or 'the standard input'} has {len(prompts)} prompts\n")
    if not serve(engine, requests, options, live=False):
        sys.exit(130)


def start(options: argparse.Namespace) -> Engine:
    """The engine that the options ask for; wrong ones end the command, in one line that names the option."""
    try:
        model = load(options.model, options.library)
        for name in ("blocks", "block_size"):
            if getattr(options, name) < 1:
                raise ValueError(f"{name} is {getattr(options, name)}; it must be at least 1")
        Request(0, [0], arrival=Moment(0, 0.0), **{name: getattr(options, name) for name in OPTIONS})
        pool(model, options)
        draft = DRAFTS[options.draft](model) if options.draft else None
        return Engine(
            model, options.blocks, options.block_size, options.budget, draft=draft, guesses=options.guesses
        )
    except (ValueError, FileNotFoundError, ModuleNotFoundError) as error:
        name = str(error).partition(" ")[0]
        parser().error(f"argument --{name.replace('_', '-')}: {error}" if name in vars(options) else str(error))


def pool(model: Model, options: argparse.Namespace) -> None:
    """Ask for the memory of the pool as a whole: seconds, and gigabytes, before the engine would find out."""
    c = model.config
    count = 2 * c.layers * c.kv_heads * c.d * options.blocks * options.block_size
    try:
        np.empty(count, np.float32)
    except (MemoryError, ValueError):
        size = f"{4 * count / 2**30:,.0f} GiB"
        raise ValueError(f"blocks is {options.blocks}; their keys and values would take {size}") from None


def read(path: Path | None) -> list[bytes]:
    """The lines of a file, or of the standard input, as bytes; an error of the command where it can't be read."""
    try:
        text = path.read_bytes() if path else sys.stdin.buffer.read()
    except OSError as error:
        parser().error(f"cannot read {path}: {error.strerror}")
    return [line.removesuffix(b"\r") for line in text.removesuffix(b"\n").split(b"\n")] if text else []


def typed() -> Iterator[bytes]:
    """Lines from the terminal, until its input ends or Ctrl-C; an empty one is asked for again."""
    while True:
        try:
            if line := input("prompt> "):
                yield line.encode("utf-8", "surrogateescape")
            else:
                print("an empty prompt says nothing; Ctrl-D ends", file=sys.stderr)
        except (EOFError, KeyboardInterrupt):
            print()
            return


def submit(engine: Engine, prompts: dict[int, bytes], options: argparse.Namespace) -> dict[int, Request]:
    """The requests that the engine takes, by line; of the others, why not."""
    taken = {}
    for number, prompt in prompts.items():
        try:
            taken[number] = engine.submit(prompt, **{name: getattr(options, name) for name in OPTIONS})
        except ValueError as error:
            print(f"refused line {number}, {prompt[:40]!r}: {error}", file=sys.stderr)
    return taken


def serve(engine: Engine, requests: dict[int, Request], options: argparse.Namespace, live: bool) -> bool:
    """Serve requests and tell their texts, ``live`` byte by byte, else whole lines above a progress bar.

    Ctrl-C ends it with what is there, and the summary; returns whether all were served.
    """
    try:
        from tqdm import tqdm  # here, so that --help needs nothing
    except ModuleNotFoundError:
        sys.exit(str(missing("tqdm", "serve")))
    told, decode, ended = Transcript(requests), codecs.getincrementaldecoder("utf-8")("replace").decode, True
    tell = print_now if live else tqdm.write
    total, text = sum(one.max_tokens * one.samples for one in requests.values()), ""
    with tqdm(total=total, unit="token", disable=live) as bar:
        try:
            while engine.requests:
                bar.update(len(engine.step()))
                text += "" if options.json else decode(told.more())
                end = len(text) if live else text.rfind("\n") + 1
                if end:
                    tell(text[:end], end="")
                text = text[end:]
        except KeyboardInterrupt:
            ended = False
            tell("" if options.json else text + decode(told.rest()), end="")
    for line in objects(requests) if options.json else ():
        print(json.dumps(line))
    if requests:
        done = sum(one.done for one in requests.values())
        print("" if ended else f"interrupted: {done} of {len(requests)} requests are done\n", end="", file=sys.stderr)
        print(summary(engine, [*requests.values()]), file=sys.stderr)
    return ended


def print_now(text: str, end: str) -> None:
    """Print without waiting for the end of the line."""
    print(text, end=end, flush=True)


def parser() -> argparse.ArgumentParser:
    """The options of the command line and what they mean."""
    p = argparse.ArgumentParser(prog="python -m attnlab_course.serve", description="Serve the small language model.")
    add = p.add_argument
    add("file", nargs="?", type=Path, help="prompts, one a line; default: what is typed, or piped")
    add("--max-tokens", type=int, default=64, help="to generate, for each prompt (64)")
    add("--samples", type=int, default=1, help="texts of each prompt (1)")
    add("--temperature", type=float, default=0.0, help="0 takes the likeliest byte (0)")
    add("--top-k", type=int, help="draw from the likeliest so many bytes")
    add("--top-p", type=float, default=1.0, help="draw from the fewest bytes of this share (1)")
    add("--seed", type=int, default=0, help="of the draws of each request (0)")
    add("--beams", type=int, help="beam search instead of draws")
    add("--blocks", type=int, default=256, help="in the pool (256)")
    add("--block-size", type=int, default=16, help="tokens of a block (16)")
    add("--budget", type=int, default=64, help="tokens that a step may feed (64)")
    add("--json", action="store_true", help="tell each text as an object, a line each, when all are done")
    add("--draft", choices=[*DRAFTS], help="guess tokens: by lookup in the text, or by the model in 4 bits")
    add("--guesses", type=int, default=4, help="for a sequence and step, with --draft (4)")
    add("--model", choices=NAMES, default="base", help="which weights (base)")
    add("--library", choices=[*LIBRARIES], default="numpy", help="that computes (numpy)")
    return p


if __name__ == "__main__":
    main()
