"""Lesson 19: its figures and its exercises, one file an exercise."""
