"""The course of attnlab: exercises and their checker, figures, games, instruments, a small model and its server.

``from attnlab_course import check`` is where an exercise begins. What computes attention is the package ``attnlab``.
"""

__version__ = "0.1.0"
