"""The door: signatures, errors, imports, and the geometry of tiles."""
