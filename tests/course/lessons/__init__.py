"""The experiments of lessons."""
