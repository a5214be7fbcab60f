"""Lesson 23: its figures, its stored runs and its exercises, one file an exercise."""
