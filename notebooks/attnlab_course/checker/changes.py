"""What may stand in the place of one node of a syntax tree: the grammar of :mod:`attnlab_course.checker.slips`."""

import ast
import copy
from collections.abc import Iterator

TURNED = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE), ast.Gt: (ast.GtE, ast.Lt), ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
}  # fmt: skip
OTHER = {
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult,), ast.FloorDiv: (ast.Div,),
    ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,),
}  # fmt: skip
SISTERS = {
    "max": ("min", "sum"), "min": ("max",), "maximum": ("minimum",), "minimum": ("maximum",), "sum": ("mean", "max"),
    "mean": ("sum",), "exp": ("exp2",), "argmax": ("argmin",),
}  # fmt: skip
STARTS = (0.0, -1e3, -1e4, -1e9)
"""Numbers that people take for −∞."""
MODULES = ("np", "jnp", "torch", "math", "jax", "lax", "tl", "attnlab", "machine")
NEEDED = ("range", "zip", "len", "enumerate", "slice", "list")
"""Functions that nobody forgets to call."""


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Each node that may stand in the place of ``node``; ``ast.Pass`` where a statement is left out."""
    by_type = {
        ast.Compare: _of_comparison, ast.BinOp: _of_operation, ast.UnaryOp: _of_sign, ast.Call: _of_call,
        ast.Constant: _of_constant, ast.If: _of_condition, ast.While: _of_condition, ast.AugAssign: _of_update,
        ast.Assign: _of_assignment, ast.Return: _of_return,
    }  # fmt: skip
    if type(node) in by_type:
        yield from by_type[type(node)](node)
    elif _is_transpose(node) or _is_read(node):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, ast.BoolOp):
        yield from node.values
    elif isinstance(node, ast.Continue):
        yield from (ast.Break(), ast.Pass())
    elif isinstance(node, ast.Expr):
        yield ast.Pass()


def left_out(node: ast.AST, new: ast.AST) -> tuple[str, ...]:
    """The texts that ``new`` leaves out of ``node``: terms, factors, arguments, a call, a condition or a statement.

    A call is left out if one of its arguments stands in its place; the other arguments are left out, too. Of a
    statement with a body the text is its first line.
    """
    if isinstance(new, ast.Pass):
        return (_first_line(node),)
    if isinstance(node, (ast.If, ast.While)):
        always = isinstance(new.test, ast.Constant) and new.test.value
        return (ast.unparse(node.test) if always else _first_line(node),)
    parts = {ast.BinOp: ("left", "right"), ast.IfExp: ("body", "orelse")}.get(type(node), ())
    sides = [getattr(node, part) for part in parts] or getattr(node, "values", [])
    if len(sides) == 2 and new in sides:
        return (ast.unparse(sides[new is sides[0]]),)
    if isinstance(node, ast.Call) and isinstance(new, ast.Call) and new.func is node.func:
        return tuple(ast.unparse(x) for x in (*node.args, *node.keywords) if x not in (*new.args, *new.keywords))
    if isinstance(node, ast.Call) and new in node.args:
        return (ast.unparse(node), *(ast.unparse(x) for x in node.args if x is not new))
    whole = node.func if isinstance(node, ast.Call) else node
    return (ast.unparse(node),) if new in (getattr(whole, name, None) for name in ("operand", "value")) else ()


def _first_line(node: ast.AST) -> str:
    """The first line of a statement."""
    return ast.unparse(node).splitlines()[0]


def _is_transpose(node: ast.AST) -> bool:
    """Whether a node is the transpose of something."""
    return isinstance(node, ast.Attribute) and node.attr in ("T", "mT")


def _is_read(node: ast.AST) -> bool:
    """Whether a node reads at an index."""
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)


def _of_comparison(node: ast.Compare) -> Iterator[ast.AST]:
    """Turned around, or made strict."""
    if len(node.ops) == 1:
        for op in TURNED.get(type(node.ops[0]), ()):
            yield ast.Compare(node.left, [op()], node.comparators)


def _of_operation(node: ast.BinOp) -> Iterator[ast.AST]:
    """One side alone, another operator, the sides exchanged."""
    yield node.left
    if not isinstance(node.op, (ast.Div, ast.Pow, ast.FloorDiv, ast.Mod)):
        yield node.right
    for op in OTHER.get(type(node.op), ()):
        yield ast.BinOp(node.left, op(), node.right)
    if isinstance(node.op, (ast.Sub, ast.Div)):
        yield ast.BinOp(node.right, node.op, node.left)


def _of_sign(node: ast.UnaryOp) -> Iterator[ast.AST]:
    """No sign, or a number for −∞."""
    yield node.operand
    if isinstance(node.op, ast.USub) and ast.unparse(node.operand).lower().endswith("inf"):
        yield from map(ast.Constant, STARTS)


def _of_call(node: ast.Call) -> Iterator[ast.AST]:
    """The call left out, a sister of the function, an option left out."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    method = isinstance(node.func, ast.Attribute) and not _is_module(node.func.value)
    if method:
        yield node.func.value
    elif name not in NEEDED:
        yield from (x for x in node.args if not isinstance(x, ast.Starred))
    for sister in SISTERS.get(name, ()):
        func = copy.copy(node.func)
        setattr(func, "attr" if isinstance(func, ast.Attribute) else "id", sister)
        yield ast.Call(func, node.args, node.keywords)
    for i in range(len(node.keywords)):
        yield ast.Call(node.func, node.args, node.keywords[:i] + node.keywords[i + 1 :])
    if method and len(node.args) == 1:
        yield ast.Call(node.func, [], node.keywords)


def _is_module(node: ast.AST) -> bool:
    """Whether a name is that of a module."""
    return isinstance(node, ast.Name) and node.id in MODULES


def _of_constant(node: ast.Constant) -> Iterator[ast.AST]:
    """The other truth, a whole number off by one, 0 or 1."""
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield from (ast.Constant(value + 1), ast.Constant(value - 1))
    elif isinstance(value, float):
        yield from (ast.Constant(x) for x in (0.0, 1.0) if x != value)


def _of_condition(node: ast.If | ast.While) -> Iterator[ast.AST]:
    """Always or never; a loop that never ends says nothing."""
    for value in (True, False) if isinstance(node, ast.If) else (False,):
        yield type(node)(ast.Constant(value), node.body, node.orelse)


def _of_update(node: ast.AugAssign) -> Iterator[ast.AST]:
    """Left out, or what was there before forgotten."""
    target = copy.copy(node.target)
    yield from (ast.Pass(), ast.Assign([target], node.value, lineno=node.lineno))


def _of_assignment(node: ast.Assign) -> Iterator[ast.AST]:
    """Left out, where the name means something before it."""
    target = node.targets[0]
    named = isinstance(target, ast.Name) and any(
        isinstance(x, ast.Name) and x.id == target.id for x in ast.walk(node.value)
    )
    if named or isinstance(target, (ast.Subscript, ast.Attribute)):
        yield ast.Pass()


def _of_return(node: ast.Return) -> Iterator[ast.AST]:
    """Two results exchanged."""
    if isinstance(node.value, ast.Tuple):
        parts = node.value.elts
        for i in range(len(parts) - 1):
            yield ast.Return(ast.Tuple([*parts[:i], parts[i + 1], parts[i], *parts[i + 2 :]], ast.Load()))
