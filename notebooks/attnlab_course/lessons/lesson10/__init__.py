"""Lesson 10: its figures and its exercises, one file an exercise."""
