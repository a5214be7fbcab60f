"""What was changed in a slip, and where, in words: no text of the reference but names that the learner knows."""

import ast
import inspect
import re
from collections.abc import Callable

from attnlab_course.checker.changes import CALLS, NUMBER, REDUCE, Change, in_words, is_module, name_of
from attnlab_course.checker.result_names import parts_of

AXIS = "in the axis of "


class Words:
    """The words for one function's changes.

    ``reference``: the right answer, if it is that function. Its parameters and the parts of its result are known to
    the learner and are named; the names in a helper are not.
    """

    def __init__(self, tree: ast.Module, reference: Callable | None) -> None:
        self.tree = tree
        self.above = {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self.loops = [x for x in ast.walk(tree) if isinstance(x, (ast.For, ast.While))]
        self.parameters = set(inspect.signature(reference).parameters) if reference else set()
        self.parts = parts_of(reference) if reference else ()
        self.names = self.parameters | set(filter(None, self.parts))
        self.is_reference = reference is not None

    def known(self, node: ast.AST) -> list[str]:
        """The names in a part of the function that the learner knows."""
        names = {x.id for x in ast.walk(node) if isinstance(x, ast.Name)}
        return sorted(names & self.names)

    def of(self, node: ast.AST, change: Change) -> str:
        """Where it was changed, and what."""
        about = change.about or (change.gone and change.gone[0])
        how = re.sub(r"\{(.*?)\}", lambda found: self.describe(found[1], about), change.how)
        within, result = self.within(node), self.result(node)
        if how == NUMBER and within == "in a comparison":
            how = "a finite number is compared, where −∞ is meant"
        if within.startswith(AXIS) and isinstance(node, ast.Constant):
            how, within = f"{within[len(AXIS) :]} takes another axis", ""
        if within != "in the range of a loop":
            result = result or self.loop(node)
        where = ", ".join(filter(None, [result, within]))
        return f"{where and ' '}{where}: {how}"

    def describe(self, noun: str, gone: ast.AST) -> str:
        """A ``noun`` such as "a term that is subtracted" with what can be said of the one that is ``gone``."""
        article, head, *rest = noun.split(" ", 2)
        rest = "".join(f" {x}" for x in rest)
        of = f" with {join_names(known)} in it" if 0 < len(known := self.known(gone)) < 3 else ""
        name = gone.arg if isinstance(gone, ast.keyword) else getattr(gone, "id", "")
        if name in self.names and noun != in_words(gone):
            return f"the {head} `{name}`{rest}"
        if head in ("argument", "option"):
            return noun
        if isinstance(gone, ast.Constant):
            return f"a constant {head}{rest}"
        if isinstance(gone, ast.Subscript) and head in ("index", "new"):
            return f"{noun} of `{gone.value.id}`" if getattr(gone.value, "id", "") in self.names else noun
        if noun == in_words(gone):
            return noun + of
        what = f" ({in_words(gone)})" if name_of(gone) in CALLS else ""
        return f"{article} {head}{what}{of}{rest}"

    def within(self, node: ast.AST) -> str:
        """The smallest of the things around a node that have a word, inside its statement."""
        while not isinstance(node, (ast.stmt, ast.BoolOp)):
            inner, node = node, self.above[id(node)]
            if isinstance(node, ast.Subscript) and inner is node.slice:
                return "in an index"
            if isinstance(node, ast.keyword) and node.arg in ("axis", "dim"):
                return AXIS + in_words(self.above[id(node)])
            if isinstance(node, ast.Call) and name_of(node) in REDUCE and inner in node.args[-1:]:
                return (AXIS if isinstance(inner, (ast.Constant, ast.UnaryOp)) else "inside ") + in_words(node)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and inner is node.right:
                return "in an exponent"
            if isinstance(node, ast.Compare):
                return "in a comparison"
            if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.comprehension)) and inner in _tests(node):
                return "in a condition"
            if isinstance(node, (ast.For, ast.comprehension)) and inner is node.iter:
                return "in the range of a loop"
            said = isinstance(node, ast.Call) and inner is not node.func and CALLS.get(name_of(node), "a conversion")
            if said and said != "a conversion":
                return f"inside {said}"
        return ""

    def result(self, node: ast.AST) -> str:
        """Which result, or which argument that is written to, a node belongs to; nothing if the learner can't know."""
        inside = self.up(node, ast.stmt)
        whole = inside[-1]
        at = next((i for i, x in enumerate(getattr(getattr(whole, "value", None), "elts", [])) if x in inside), None)
        outer = self.is_reference and self.up(whole, ast.FunctionDef)[-1] in self.tree.body
        if isinstance(whole, ast.Return) and outer:
            if at is None:
                return "in the result"
            named = at < len(self.parts) and self.parts[at]
            return f"in `{named}`" if named else f"in part {at + 1} of the result"
        if isinstance(whole, ast.Expr) and isinstance(whole.value, ast.Call):
            owner = getattr(whole.value.func, "value", None)
            targets = [x for x in whole.value.args[:1] if isinstance(x, ast.Name)] if is_module(owner) else [owner]
        elif isinstance(whole, (ast.Assign, ast.AugAssign)):
            targets = getattr(whole, "targets", None) or [whole.target]
            each = getattr(targets[0], "elts", [])
            targets = targets if at is None or at >= len(each) else [each[at]]
        else:
            targets = []
        found = [name for target in targets if target is not None for name in self.known(_root(target))]
        return f"in {join_names(found)}" if 0 < len(found) < 3 else ""

    def loop(self, node: ast.AST) -> str:
        """Whether a node is in a loop, before the first one or after the last one of its function."""
        around = self.up(node, ast.FunctionDef)
        loops = [x for x in self.loops if self.up(x, ast.FunctionDef)[-1] is around[-1]]
        if not loops or any(x in loops for x in around[1:]):
            return "in a loop" if loops else ""
        if node.lineno < min(x.lineno for x in loops):
            return "before the loop"
        return "after the loop" if node.lineno > max(x.end_lineno for x in loops) else ""

    def up(self, node: ast.AST, kind: type) -> list[ast.AST]:
        """A node and those around it, up to the first that is of a ``kind``."""
        found = [node]
        while not isinstance(found[-1], kind):
            found.append(self.above[id(found[-1])])
        return found


def read(name: str, source: str) -> set[str]:
    """The names that the function ``name`` of a program reads."""
    function = next(x for x in ast.parse(source).body if getattr(x, "name", "") == name)
    return {x.id for x in ast.walk(function) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Load)}


def join_names(names: list[str]) -> str:
    """Names in a row."""
    *first, last = (f"`{name}`" for name in names)
    return f"{', '.join(first)} and {last}" if first else last


def _tests(node: ast.AST) -> list[ast.AST]:
    """The conditions of a node."""
    return node.ifs if isinstance(node, ast.comprehension) else [node.test]


def _root(target: ast.AST) -> ast.AST:
    """What is written to: a name, or several; of x[i] and x.y it is x."""
    while isinstance(target, (ast.Subscript, ast.Attribute)):
        target = target.value
    return target
