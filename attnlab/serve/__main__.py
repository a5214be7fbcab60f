"""The command line: ``python -m attnlab.serve --help``.

Prompts are the lines of a file, served together, or what is typed, one after the other. Text goes to the standard
output as it comes, the summary and what was refused to the standard error.
"""

import argparse
import codecs
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from attnlab.arguments import LIBRARIES
from attnlab.call import missing
from attnlab.model import FIRST, NAMES, load
from attnlab.serve.engine import Engine
from attnlab.serve.request import Request
from attnlab.serve.summary import summary


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the options, then prompts; serve them, and sum up. Exit status 1 where every prompt was refused."""
    options = parser().parse_args(arguments)
    try:
        run(options)
    except KeyboardInterrupt:
        sys.exit("interrupted")
    except BrokenPipeError:  # who read the output has seen enough; nothing more is written, also not at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(options: argparse.Namespace) -> None:
    """Serve what is typed, or the lines of the file."""
    try:
        model = load(options.model, options.library)
        engine = Engine(model, options.blocks, options.block_size, options.budget)
    except (ValueError, FileNotFoundError, ModuleNotFoundError) as error:
        parser().error(str(error))
    if options.file is None and sys.stdin.isatty():
        while prompt := ask():
            try:
                serve(engine, submit(engine, [prompt], options), lines=False)
            except KeyboardInterrupt:  # ends the answer; the next prompt finds an empty pool
                engine = Engine(model, options.blocks, options.block_size, options.budget)
                print()
        return
    text = read(options.file).removesuffix("\n")
    requests = submit(engine, [line.removesuffix("\r") for line in text.split("\n")] if text else [], options)
    serve(engine, requests, lines=True)
    if not requests:
        sys.exit("nothing was served")


def read(path: Path | None) -> str:
    """The text of a file, or of the standard input; an error of the command line where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8") if path else sys.stdin.read()
    except OSError as error:
        parser().error(f"cannot read {path}: {error.strerror}")
    except UnicodeDecodeError as error:
        byte = f"byte {error.start} is {error.object[error.start]}"
        parser().error(f"{path or 'the standard input'} is not UTF-8: {byte}")


def ask() -> str:
    """A line from the terminal; nothing where its input ends."""
    try:
        return input("prompt> ")
    except EOFError:
        return ""


def submit(engine: Engine, prompts: list[str], options: argparse.Namespace) -> list[Request]:
    """The requests that the engine takes; of the others, why not."""
    names = "max_tokens", "seed", "temperature", "top_k", "top_p", "samples", "beams"
    taken = []
    for prompt in prompts:
        try:
            taken.append(engine.submit(prompt, **{name: getattr(options, name) for name in names}))
        except ValueError as error:
            print(f"refused {prompt[:40]!r}: {error}", file=sys.stderr)
    return taken


def serve(engine: Engine, requests: list[Request], lines: bool) -> None:
    """Serve requests and tell their texts, whole ``lines`` at a time while a progress bar stands below them."""
    try:
        from tqdm import tqdm  # here, so that --help needs nothing
    except ModuleNotFoundError:
        sys.exit(str(missing("tqdm", "serve")))
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    told, text = 0, ""
    with tqdm(total=sum(one.max_tokens * one.samples for one in requests), unit="token", disable=not lines) as bar:
        while engine.requests:
            bar.update(len(engine.step()))
            settled = transcript(requests)
            text, told = text + decode(settled[told:]), len(settled)
            end = text.rfind("\n") + 1 if lines else len(text)
            if end:
                tell = tqdm.write if lines else print_now
                tell(text[:end], end="")
            text = text[end:]
    if requests:
        print(summary(engine, requests), file=sys.stderr)


def transcript(requests: list[Request]) -> bytes:
    """All that can be told: numbers, prompts and texts of sequences, in order, up to the first that is not done."""
    parts = []
    for request in requests:
        for sequence, output in zip(request.sequences, request.texts):
            if request.beams and not request.done:  # another beam may still become the best
                break
            title = f"[{request.index}.{sequence.sample}] ".encode()
            parts += [title, bytes(token for token in request.prompt if token != FIRST), output]
            if not sequence.done:
                break
            parts.append(b"\n")
        if not request.done:
            break
    return b"".join(parts)


def print_now(text: str, end: str) -> None:
    """Print without waiting for the end of the line."""
    print(text, end=end, flush=True)


def parser() -> argparse.ArgumentParser:
    """The options of the command line and what they mean."""
    p = argparse.ArgumentParser(prog="python -m attnlab.serve", description="Serve the small language model.")
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
    add("--model", choices=NAMES, default="base", help="which weights (base)")
    add("--library", choices=[*LIBRARIES], default="numpy", help="that computes (numpy)")
    return p


if __name__ == "__main__":
    main()
