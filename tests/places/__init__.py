"""The package as it is installed, and where else the course opens."""
