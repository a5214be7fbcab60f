"""The tests; the type checker is loaded here because the import hook of jaxtyping looks it up on this package."""

from tests.support import absent, typechecker

__all__ = ["typechecker"]

absent.stand_in()  # here, as processes that a test starts import files of tests, too
