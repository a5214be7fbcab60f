"""Counting machine, closed forms, hardware, benchmark."""
