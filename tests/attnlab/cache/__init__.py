"""Caches: any split of a sequence gives the same rows, in three libraries."""
