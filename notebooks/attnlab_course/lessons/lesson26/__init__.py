"""Lesson 26: its figures and its exercises, one file an exercise."""
