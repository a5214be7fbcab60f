"""What may stand in the place of one node of a syntax tree, in words: the grammar of :mod:`checker.slips`."""

import ast
import copy
from collections.abc import Iterator
from typing import NamedTuple


class Change(NamedTuple):
    """A node that stands in the place of another, and ``how`` that differs, in words.

    ``gone``: what is left out. ``about``: what the words mean by {a factor}, if that isn't the first that is gone.
    """

    new: ast.AST
    how: str
    gone: tuple[ast.AST, ...] = ()
    about: ast.AST | None = None


TURNED = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE), ast.Gt: (ast.GtE, ast.Lt), ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
}  # fmt: skip
STRICT = {
    (ast.Lt, ast.LtE): "a comparison lets equality pass, where it should be strict",
    (ast.Gt, ast.GtE): "a comparison lets equality pass, where it should be strict",
    (ast.LtE, ast.Lt): "a comparison is strict, where it should let equality pass",
    (ast.GtE, ast.Gt): "a comparison is strict, where it should let equality pass",
}
OTHER = {
    ast.Add: (ast.Sub, "{a term} is subtracted, where it should be added"),
    ast.Sub: (ast.Add, "{a term} is added, where it should be subtracted"),
    ast.Mult: (ast.Div, "{a factor} divides, where it should multiply"),
    ast.Div: (ast.Mult, "{a divisor} multiplies, where it should divide"),
    ast.FloorDiv: (ast.Div, "{a quotient} isn't rounded down"),
    ast.BitAnd: (ast.BitOr, "one of two conditions is enough, where both must hold"),
    ast.BitOr: (ast.BitAnd, "two conditions must hold, where one is enough"),
}
SIDES = {
    ast.Add: ("a term", "a term"), ast.Sub: ("a term from which another is subtracted", "a term that is subtracted"),
    ast.Mult: ("a factor", "a factor"), ast.MatMult: ("a factor of a matrix product",) * 2,
    ast.BitAnd: ("a condition", "a condition"), ast.BitOr: ("a condition", "a condition"),
    ast.Div: ("", "a divisor"), ast.FloorDiv: ("", "a divisor"), ast.Pow: ("", "an exponent"),
    ast.Mod: ("", "a modulus"),
}  # fmt: skip
"""What stands on either side of an operator; nobody forgets the empty ones."""
CALLS = {
    "exp": "an exponential", "exp2": "a power of 2", "log": "a logarithm", "log2": "a logarithm", "sqrt": "a root",
    "isqrt": "a root", "sum": "a sum", "mean": "a mean", "cumsum": "a running sum", "dot": "a product",
    "max": "a maximum", "amax": "a maximum", "maximum": "a maximum", "min": "a minimum", "minimum": "a minimum",
    "argmax": "the place of a maximum", "argmin": "the place of a minimum", "where": "a choice by a mask",
    "arange": "a range", "tuple": "a conversion",
    "tril": "a triangle", "tri": "a triangle", "sort": "an order", "sorted": "an order", "reversed": "an order",
    "round": "a rounding", "floor": "a rounding", "int": "a conversion", "float": "a conversion",
    "astype": "a conversion", "to": "a conversion", "type": "a conversion", "abs": "an absolute value",
    "reshape": "a new shape", "swapaxes": "an exchange of axes", "trans": "a transpose", "copy": "a copy",
    "concatenate": "a concatenation", "append": "an append", "load": "a load", "fetch": "a load", "store": "a store",
    "release": "a release", "rotary": "a rotation", "send": "a message", "receive": "a message",
    "all_reduce": "a reduction over devices", "keep": "a hold in SRAM", "zero_if_empty": "a guard against −∞ − (−∞)",
    "one_if_empty": "a guard against a division by 0",
}  # fmt: skip
"""Functions in words; others are "a call"."""
SISTERS = {
    "max": ("min", "sum"), "min": ("max",), "maximum": ("minimum",), "minimum": ("maximum",), "sum": ("mean", "max"),
    "mean": ("sum",), "exp": ("exp2",), "argmax": ("argmin",),
}  # fmt: skip
REDUCE = ("sum", "mean", "max", "amax", "min", "argmax", "argmin", "any", "all")
STARTS = (0.0, -1e3, -1e4, -1e9)
"""Numbers that people take for −∞."""
NUMBER = "a finite number stands for −∞"
MODULES = ("np", "jnp", "torch", "math", "jax", "lax", "tl", "attnlab", "machine")
NEEDED = ("range", "zip", "len", "enumerate", "slice", "list")
"""Functions that nobody forgets to call."""


def changes(node: ast.AST) -> Iterator[Change]:
    """Each change of ``node``; ``ast.Pass`` stands where a statement is left out."""
    by_type = {
        ast.Compare: _of_comparison, ast.BinOp: _of_operation, ast.UnaryOp: _of_sign, ast.Call: _of_call,
        ast.Constant: _of_constant, ast.If: _of_condition, ast.While: _of_condition, ast.AugAssign: _of_update,
        ast.Assign: _of_assignment, ast.Return: _of_return, ast.BoolOp: _of_conditions, ast.IfExp: _of_alternatives,
    }  # fmt: skip
    if type(node) in by_type:
        yield from by_type[type(node)](node)
    elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        yield Change(node.value, "{a transpose} is left out", (node,))
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        new_axis = any(isinstance(x, ast.Constant) and x.value is None for x in ast.walk(node.slice))
        yield Change(node.value, f"{{{'a new axis' if new_axis else 'an index'}}} is left out", (node,))
    elif isinstance(node, ast.Continue):
        yield Change(ast.Break(), "a loop is left, where it should go on with the next round")
        yield Change(ast.Pass(), "the rest of a round isn't skipped", (node,))
    elif isinstance(node, ast.Expr):
        yield Change(ast.Pass(), f"{in_words(node.value, 'a step')} is left out", (node,))


def name_of(node: ast.AST) -> str:
    """The name of a function that is called, without what it belongs to; nothing for other nodes."""
    func = getattr(node, "func", None)
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def in_words(node: ast.AST, other: str = "a call") -> str:
    """What a call is."""
    return CALLS.get(name_of(node), other)


def _of_comparison(node: ast.Compare) -> Iterator[Change]:
    """Turned around, or made strict."""
    if len(node.ops) == 1:
        old = type(node.ops[0])
        for op in TURNED.get(old, ()):
            how = "a comparison is turned around" if op in (ast.Lt, ast.LtE, ast.Gt, ast.GtE) else "a test is negated"
            yield Change(ast.Compare(node.left, [op()], node.comparators), STRICT.get((old, op), how))


def _of_operation(node: ast.BinOp) -> Iterator[Change]:
    """One side alone, another operator, the sides exchanged."""
    left, right = SIDES.get(type(node.op), ("a part", "a part"))
    yield Change(node.left, f"{{{right}}} is left out", (node.right,))
    if left:
        yield Change(node.right, f"{{{left}}} is left out", (node.left,))
    if type(node.op) in OTHER:
        op, how = OTHER[type(node.op)]
        about = node if isinstance(node.op, ast.FloorDiv) else node.right
        yield Change(ast.BinOp(node.left, op(), node.right), how, (), about)
    if isinstance(node.op, (ast.Sub, ast.Div)):
        divides = isinstance(node.op, ast.Div)
        how = "{a quotient} is upside down" if divides else "the sides of {a difference} are exchanged"
        yield Change(ast.BinOp(node.right, node.op, node.left), how, (), node)


def _of_sign(node: ast.UnaryOp) -> Iterator[Change]:
    """No sign, or a number for −∞."""
    how = "a minus sign is left out" if isinstance(node.op, ast.USub) else "a condition isn't negated"
    yield Change(node.operand, how, (node,))
    if isinstance(node.op, ast.USub) and ast.unparse(node.operand).lower().endswith("inf"):
        yield from (Change(ast.Constant(number), NUMBER) for number in STARTS)


def _of_call(node: ast.Call) -> Iterator[Change]:
    """The call left out, a sister of the function, an option left out."""
    name, what = name_of(node), in_words(node)
    method = isinstance(node.func, ast.Attribute) and not is_module(node.func.value)
    if method:
        yield Change(node.func.value, f"{{{what}}} is left out", (node,))
    elif name not in NEEDED:
        how = f"{{{what}}} is left out" + ", and one of its arguments stands alone" * (len(node.args) > 1)
        whole = node.args[name == "where" and len(node.args) == 3 :][:1]
        for x in node.args:
            others = [y for y in node.args if y is not x]
            if not isinstance(x, ast.Starred):
                yield Change(x, how, (*[node] * (x in whole), *others[: len(others) == 1]), node)
    for sister in SISTERS.get(name, ()):
        func = copy.copy(node.func)
        setattr(func, "attr" if isinstance(func, ast.Attribute) else "id", sister)
        how = f"{CALLS[sister]} is taken, where {{{what}}} should be"
        yield Change(ast.Call(func, node.args, node.keywords), how, (), node)
    over_all = f"{{{what}}} runs over all axes, not over one"
    for i, option in enumerate(node.keywords):
        how = over_all if option.arg in ("axis", "dim") else f"{{an option}} of {what} is left out"
        about = node if how == over_all else option
        yield Change(ast.Call(node.func, node.args, node.keywords[:i] + node.keywords[i + 1 :]), how, (option,), about)
    if method and len(node.args) == 1:
        how = over_all if name in REDUCE else f"{{an argument}} of {what} is left out"
        about = node if how == over_all else node.args[0]
        yield Change(ast.Call(node.func, [], node.keywords), how, (node.args[0],), about)


def is_module(node: ast.AST) -> bool:
    """Whether a name is that of a module."""
    return isinstance(node, ast.Name) and node.id in MODULES


def _of_constant(node: ast.Constant) -> Iterator[Change]:
    """The other truth, a whole number off by one, 0 or 1."""
    value = node.value
    if isinstance(value, bool):
        yield Change(ast.Constant(not value), "a flag is the other way round")
    elif isinstance(value, int):
        yield Change(ast.Constant(value + 1), "a number is too large by one")
        yield Change(ast.Constant(value - 1), "a number is too small by one")
    elif isinstance(value, float):
        how = "{:.0f} stands in the place of another number"
        yield from (Change(ast.Constant(x), how.format(x)) for x in (0.0, 1.0) if x != value)


def _of_condition(node: ast.If | ast.While) -> Iterator[Change]:
    """Always or never; a loop that never ends says nothing."""
    if isinstance(node, ast.While):
        yield Change(ast.While(ast.Constant(False), node.body, node.orelse), "a loop never begins", (node,))
    else:
        how = "what depends on a condition is done always"
        yield Change(ast.If(ast.Constant(True), node.body, node.orelse), how, (node.test,))
        how = "what depends on a condition is never done"
        yield Change(ast.If(ast.Constant(False), node.body, node.orelse), how, (node,))


def _of_conditions(node: ast.BoolOp) -> Iterator[Change]:
    """One of several alone."""
    for x in node.values:
        others = [y for y in node.values if y is not x]
        if len(others) == 1:
            yield Change(x, "{a condition} is left out", tuple(others))
        else:
            yield Change(x, "all conditions but one are left out")


def _of_alternatives(node: ast.IfExp) -> Iterator[Change]:
    """One of two, whatever the condition."""
    how = "one of two alternatives is taken always"
    yield from (Change(node.body, how, (node.orelse,)), Change(node.orelse, how, (node.body,)))


def _of_update(node: ast.AugAssign) -> Iterator[Change]:
    """Left out, or what was there before forgotten."""
    target = copy.copy(node.target)
    yield Change(ast.Pass(), "an update is left out", (node,))
    yield Change(ast.Assign([target], node.value, lineno=node.lineno), "an update forgets what was there before")


def _of_assignment(node: ast.Assign) -> Iterator[Change]:
    """Left out, where the name means something before it."""
    target = node.targets[0]
    named = isinstance(target, ast.Name) and any(
        isinstance(x, ast.Name) and x.id == target.id for x in ast.walk(node.value)
    )
    if named or isinstance(target, (ast.Subscript, ast.Attribute)):
        yield Change(ast.Pass(), "an assignment is left out", (node,))


def _of_return(node: ast.Return) -> Iterator[Change]:
    """Two results exchanged."""
    if isinstance(node.value, ast.Tuple):
        parts = node.value.elts
        for i in range(len(parts) - 1):
            turned = ast.Tuple([*parts[:i], parts[i + 1], parts[i], *parts[i + 2 :]], ast.Load())
            yield Change(ast.Return(turned), "two results are exchanged")
