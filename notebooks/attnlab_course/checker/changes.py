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
    match node:
        case ast.Compare(left, [op], right):
            for other in TURNED.get(type(op), ()):
                turned = other in (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
                how = "a comparison is turned around" if turned else "a test is negated"
                yield Change(ast.Compare(left, [other()], right), STRICT.get((type(op), other), how))
        case ast.BinOp():
            yield from _of_operation(node)
        case ast.UnaryOp(op, operand):
            negative = isinstance(op, ast.USub)
            yield Change(operand, "a minus sign is left out" if negative else "a condition isn't negated", (node,))
            if negative and ast.unparse(operand).lower().endswith("inf"):
                yield from (Change(ast.Constant(number), NUMBER) for number in STARTS)
        case ast.Call():
            yield from _of_call(node)
        case ast.Constant(bool(value)):
            yield Change(ast.Constant(not value), "a flag is the other way round")
        case ast.Constant(int(value)):
            yield Change(ast.Constant(value + 1), "a number is too large by one")
            yield Change(ast.Constant(value - 1), "a number is too small by one")
        case ast.Constant(float(value)):
            how = "{:.0f} stands in the place of another number"
            yield from (Change(ast.Constant(x), how.format(x)) for x in (0.0, 1.0) if x != value)
        case ast.While(_, body, orelse):  # one that never ends says nothing
            yield Change(ast.While(ast.Constant(False), body, orelse), "a loop never begins", (node,))
        case ast.If(test, body, orelse):
            for always, how, gone in ((True, "done always", test), (False, "never done", node)):
                how = f"what depends on a condition is {how}"
                yield Change(ast.If(ast.Constant(always), body, orelse), how, (gone,))
        case ast.BoolOp(_, [first, second]):
            yield Change(first, "{a condition} is left out", (second,))
            yield Change(second, "{a condition} is left out", (first,))
        case ast.BoolOp(_, values):
            yield from (Change(x, "all conditions but one are left out") for x in values)
        case ast.IfExp(_, body, orelse):
            how = "one of two alternatives is taken always"
            yield from (Change(body, how, (orelse,)), Change(orelse, how, (body,)))
        case ast.AugAssign(target, _, value):
            yield Change(ast.Pass(), "an update is left out", (node,))
            forgets = ast.Assign([copy.copy(target)], value, lineno=node.lineno)
            yield Change(forgets, "an update forgets what was there before")
        case ast.Assign([ast.Subscript() | ast.Attribute(), *_]):
            yield Change(ast.Pass(), "an assignment is left out", (node,))
        case ast.Assign([ast.Name(name), *_], value):
            if any(isinstance(x, ast.Name) and x.id == name for x in ast.walk(value)):  # it means something before
                yield Change(ast.Pass(), "an assignment is left out", (node,))
        case ast.Return(ast.Tuple(parts)):
            for i in range(len(parts) - 1):
                turned = ast.Tuple([*parts[:i], parts[i + 1], parts[i], *parts[i + 2 :]], ast.Load())
                yield Change(ast.Return(turned), "two results are exchanged")
        case ast.Attribute(value, "T" | "mT"):
            yield Change(value, "{a transpose} is left out", (node,))
        case ast.Subscript(value, index, ast.Load()):
            new_axis = any(isinstance(x, ast.Constant) and x.value is None for x in ast.walk(index))
            yield Change(value, f"{{{'a new axis' if new_axis else 'an index'}}} is left out", (node,))
        case ast.Continue():
            yield Change(ast.Break(), "a loop is left, where it should go on with the next round")
            yield Change(ast.Pass(), "the rest of a round isn't skipped", (node,))
        case ast.Expr(value):
            yield Change(ast.Pass(), f"{in_words(value, 'a step')} is left out", (node,))


def name_of(node: ast.AST) -> str:
    """The name of a function that is called, without what it belongs to; nothing for other nodes."""
    func = getattr(node, "func", None)
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def in_words(node: ast.AST, other: str = "a call") -> str:
    """What a call is."""
    return CALLS.get(name_of(node), other)


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
