"""Slips: every answer that differs from a reference in one place, made by rule and told in one sentence.

A slip is one change of the syntax tree: a comparison turned or made strict; a term, factor, call, index or statement
left out; an axis or a number off by one; a number for −∞; two results exchanged. It says what was changed, for which
result, and which equation that line cites, so nobody has to write it down; it doesn't quote the reference:

    for slip in slips(exercise.reference):
        slip.function, slip.say()        # "… with one change in `l`: a factor is left out (eq. 8.4)."

They serve twice. A wrong answer that does what a slip does is told so. And an input that no slip needs is needless,
while a slip that passes is the same function or a hole in the inputs: see ``tests/course/checker/test_slips.py``.
"""

import ast
import functools
import inspect
import linecache
import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from attnlab_course.checker import phrases
from attnlab_course.checker.changes import NUMBER, changes
from attnlab_course.checker.library import own_functions
from attnlab_course.checker.slip_words import Words, join_names, read

CITED = re.compile(r"#.*?(eqs?\. [\d.]+\w?|lines? \d+|section \d+)")


@dataclass(frozen=True)
class Slip:
    """A changed reference: the text that was there, the one that is there now, the changed line, and its source.

    ``gone``: the texts that are left out. ``how``: where it was changed, and what, in words.
    """

    reference: Callable
    old: str
    new: str
    line: str
    source: str
    gone: tuple[str, ...]
    how: str

    @functools.cached_property
    def function(self) -> Callable | None:
        """The reference and its helpers as the slip has them; None if that is no program."""
        file = f"<{self.reference.__name__}, a slip {hash(self.source)}>"
        scope = dict(vars(sys.modules[self.reference.__module__]))
        try:
            with warnings.catch_warnings(action="ignore", category=SyntaxWarning):
                exec(compile(self.source, file, "exec"), scope)
        except (SyntaxError, ValueError, TypeError):
            return None
        linecache.cache[file] = len(self.source), None, self.source.splitlines(keepends=True), file
        return scope[self.reference.__name__]

    def say(self, where: str = "") -> str:
        """What was changed, and the equation that the line cites, or else ``where``, without the reference's text."""
        cited = CITED.search(self.line)
        place = cited[1] if cited else where
        if NUMBER in self.how:
            return phrases.number_for_infinity(place or "the maximum of nothing is −∞")
        name, original = self.reference.__name__, textwrap.dedent(inspect.getsource(self.reference))
        unread = (read(name, original) - read(name, self.source)) & inspect.signature(self.reference).parameters.keys()
        free = f" Then it doesn't depend on {join_names(sorted(unread))}." if unread else ""
        said = f"Your result is what our solution gives with one change{self.how} ({place}).{free}"
        return said if place else said.replace(" ()", "")


@functools.cache
def slips(reference: Callable) -> tuple[Slip, ...]:
    """Each change of ``reference`` and of the functions in its file that it calls."""
    ours = [f for f in own_functions(reference) if f.__module__ == reference.__module__]
    sources = {f.__name__: textwrap.dedent(inspect.getsource(f)) for f in ours}
    return tuple(slip for name in sources for slip in _of(name, sources, reference))


def _of(name: str, sources: dict[str, str], reference: Callable) -> Iterator[Slip]:
    """The slips of the function ``name``, one of ``sources``."""
    tree, lines = ast.parse(sources[name]), sources[name].splitlines()
    seen, silent = {ast.unparse(tree)}, _never_run(tree)
    words = Words(tree, reference if name == reference.__name__ else None)
    for node, put in list(_places(tree)):
        for change in changes(node) if id(node) not in silent else ():
            shown = _shown(node, words.above)
            old, how = _text(shown), words.of(node, change)
            put(change.new)
            changed, now = ast.unparse(tree), _text(change.new if shown is node else shown)
            put(node)
            if changed not in seen:
                seen.add(changed)
                source = "\n\n".join((sources | {name: changed}).values()) + "\n"
                gone = tuple(map(_text, change.gone))
                yield Slip(reference, old, now, lines[node.lineno - 1].strip(), source, gone, how)


def _shown(node: ast.AST, above: dict[int, ast.AST]) -> ast.AST:
    """What to show of a changed node: the smallest expression around it that says where we are."""
    while isinstance(node, (ast.Constant, ast.UnaryOp, ast.keyword, ast.Slice, ast.Name)) or len(_text(node)) < 8:
        if isinstance(node, ast.stmt):
            break
        node = above[id(node)]
    return node


def _places(tree: ast.AST) -> Iterator[tuple[ast.AST, Callable]]:
    """Each node of a tree, and what puts another in its place."""
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if isinstance(value, ast.AST):
                yield value, functools.partial(setattr, parent, name)
            elif isinstance(value, list):
                nodes = [(i, x) for i, x in enumerate(value) if isinstance(x, ast.AST)]
                yield from ((x, functools.partial(value.__setitem__, i)) for i, x in nodes)


def _never_run(tree: ast.AST) -> set[int]:
    """The nodes that only document: annotations, decorators, docstrings."""
    found = {id(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            parts = [node.args, *node.decorator_list, *filter(None, [node.returns])]
            first = node.body[0]
            documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            found |= {id(x) for part in parts + [first] * documented for x in ast.walk(part)}
    return found


def _text(node: ast.AST) -> str:
    """A node in one line; nothing for what is left out."""
    return "" if isinstance(node, ast.Pass) else ast.unparse(node).splitlines()[0]
