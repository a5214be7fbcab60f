"""The course: a folder a lesson, with its figures and its exercises; listings of source; what the sources published."""
