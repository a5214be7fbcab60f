"""Ring, striped and tree attention."""
