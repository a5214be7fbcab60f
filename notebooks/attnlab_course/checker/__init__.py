"""How an answer is checked: the machinery behind :mod:`attnlab_course.check`, which knows no lesson."""
