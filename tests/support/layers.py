"""Rooms of a package and what they import, read from the source, names of modules in strings among it."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

FACE = "__init__"  # the package's own file


class House:
    """A package in a folder, and the floors of its rooms from the lowest on: modules, by their names in the package."""

    def __init__(self, folder: Path, floors: Sequence[set[str]]) -> None:
        self.package, self.floors = folder.name, floors
        self.height = {room: height for height, rooms in enumerate(floors) for room in rooms}
        self.files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*.py"))}

    def room(self, file: str) -> str:
        """The room in which a file lies; KeyError where it lies in none."""
        return self._known(Path(file).with_suffix("").parts) or {FACE: FACE}[Path(file).stem]

    def imported(self, tree: ast.AST) -> Iterator[tuple[str, int]]:
        """Rooms that a file imports, by statements and by names in strings, with the line."""
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == self.package:
                yield from ((self._owner(f"{node.module}.{alias.name}"), node.lineno) for alias in node.names)
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names if alias.name.partition(".")[0] == self.package]
                yield from ((self._owner(name), node.lineno) for name in names)
            elif isinstance(node, ast.JoinedStr) and ast.unparse(node)[2:].startswith(f"{self.package}."):
                yield self._owner(ast.unparse(node)[2:-1]), node.lineno
            elif isinstance(node, ast.Constant) and re.fullmatch(rf"{self.package}(\.\w+)+(:\w+)?", str(node.value)):
                yield self._owner(node.value.partition(":")[0]), node.lineno

    def arrows_up(self, file: str) -> list[str]:
        """The imports of a file that don't go to a lower floor."""
        here = self.room(file)
        found = self.imported(ast.parse(self.files[file].read_text(encoding="utf-8")))
        up = [(there, line) for there, line in found if there != here and self.height[there] >= self.height[here]]
        return [f"{self.package}/{file}, line {line}: {here} imports {there}" for there, line in up]

    def _owner(self, module: str) -> str:
        """The room that has a module, or a name of one; names of the package itself are those of its face."""
        return self._known(module.split(".")[1:]) or FACE

    def _known(self, parts: Sequence[str]) -> str | None:
        """The longest beginning of a module's name that is a room."""
        return next((x for k in range(len(parts), 0, -1) if (x := ".".join(parts[:k])) in self.height), None)
