"""Lesson 24: its figures, its stored prices and its exercises, one file an exercise."""
