"""Lesson 03: its figures and its exercises, one file an exercise."""
