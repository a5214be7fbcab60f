"""The bench: what it times, what it prints, what it refuses."""
