"""Closed forms of operations, bytes and memory."""
