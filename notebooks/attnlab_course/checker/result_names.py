"""What a function returns, read from its source: the names of the parts, or nothing."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator


def parts_of(function: Callable) -> tuple[str, ...]:
    """The names of the parts of a tuple that is returned, empty ones if it has no names; () if it is no tuple.

    In ``return dq, dk, dv`` they are the variables. Otherwise they stand in the first line of the docstring, as in
    "(dq, dk, dv) of …" or "… → the next (O, l, m)".
    """
    tuples = [x for value in find_returned(function) for x in _tuples(value)]
    if not tuples:
        return ()
    names = [_name(x) for x in tuples[0].elts]
    return tuple(names) if all(names) else _listed(inspect.getdoc(function) or "", len(names))


def find_returned(function: Callable) -> list[ast.expr]:
    """The expressions that a function returns, without those of functions inside it."""
    todo: list[ast.AST] = list(ast.parse(textwrap.dedent(inspect.getsource(function))).body[0].body)
    found = []
    while todo:
        node = todo.pop(0)
        if isinstance(node, ast.Return) and node.value is not None:
            found.append(node.value)
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            todo += ast.iter_child_nodes(node)
    return found


def _tuples(value: ast.expr) -> Iterator[ast.Tuple]:
    """A tuple, or those of ``a if condition else b``."""
    if isinstance(value, ast.IfExp):
        yield from (*_tuples(value.body), *_tuples(value.orelse))
    elif isinstance(value, ast.Tuple):
        yield value


def _name(x: ast.expr) -> str:
    """The name of a variable, or of the variable that a function is called with, as in machine.fetch(lse)."""
    x = x.args[0] if isinstance(x, ast.Call) and len(x.args) == 1 and not x.keywords else x
    return x.id if isinstance(x, ast.Name) else ""


def _listed(text: str, count: int) -> tuple[str, ...]:
    """The names in a list "(a, b)" of ``count``: the first after an arrow, or else the first."""
    line = text.split("\n")[0]
    for part in (line.partition("→")[2], line):
        for inside in re.findall(r"\(((?:[^()]|\([^()]*\))*)\)", part):
            names = [re.sub(r" *\(.*", "", item).strip() for item in re.split(r", (?![^(]*\))", inside)]
            if len(names) == count and not all(name[:1].isupper() or not name for name in names):
                return tuple(names)
    return count * ("",)
