"""The tests of the package: they pass where neither the course nor Matplotlib nor Jupyter is installed."""
