"""What a command tells of its requests, in the order of their lines. Array-free."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from attnlab_course.model import FIRST
from attnlab_course.serve.request import Request


class Transcript:
    """Lines, prompts and texts of ``requests`` (by line), told once each, up to the first that isn't done."""

    def __init__(self, requests: Mapping[int, Request]) -> None:
        self._left, self._told = deque(requests.items()), 0

    def more(self) -> bytes:
        """What can be told by now and has not been."""
        found = b""
        while self._left:
            line, request = self._left[0]
            text = told(line, request)
            found += text[self._told :]
            self._told = len(text)
            if not request.done:
                break
            self._left.popleft()
            self._told = 0
        return found

    def rest(self) -> bytes:
        """All that has not been told, as far as it has come: nothing more will."""
        found = b"".join(told(line, request, ended=True) for line, request in self._left)
        return found[self._told :]


def told(line: int, request: Request, ended: bool = False) -> bytes:
    """[line.sample], prompt and text of the sequences, up to the first that isn't done, or all if it has ``ended``."""
    parts = []
    for sequence, output in zip(request.sequences, request.texts):
        if request.beams and not (request.done or ended):  # another beam may still become the best
            break
        parts += [b"[%d.%d] " % (line, sequence.sample), _prompt(request), output]
        if not (sequence.done or ended):
            break
        parts.append(b"\n")
    return b"".join(parts)


def objects(requests: Mapping[int, Request]) -> Iterator[dict[str, Any]]:
    """An object for each sequence; bytes that are no UTF-8 stand as the characters U+DC80 to U+DCFF, and come back."""
    for line, request in requests.items():
        for sequence, output in zip(request.sequences, request.texts):
            prompt, text = (x.decode("utf-8", "surrogateescape") for x in (_prompt(request), output))
            yield {"line": line, "sample": sequence.sample, "prompt": prompt, "text": text, "done": sequence.done,
                   **({"score": sequence.score} if request.beams else {})}  # fmt: skip


def _prompt(request: Request) -> bytes:
    return bytes(token for token in request.prompt if token != FIRST)
