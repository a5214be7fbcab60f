"""Three games beside the lessons: guess the bug, attention puzzles and memory golf."""
