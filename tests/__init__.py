"""The tests; the type checker is loaded here because the import hook of jaxtyping looks it up on this package."""

from tests.support import typechecker

__all__ = ["typechecker"]
