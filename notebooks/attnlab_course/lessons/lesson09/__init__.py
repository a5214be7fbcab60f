"""Lesson 09: its figures and its exercises, one file an exercise."""
