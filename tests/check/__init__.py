"""The checker of exercises."""
