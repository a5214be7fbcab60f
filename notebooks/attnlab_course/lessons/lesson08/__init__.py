"""Lesson 08: its figures and its exercises, one file an exercise."""
