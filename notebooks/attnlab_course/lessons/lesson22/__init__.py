"""Lesson 22: its figures and its exercises, one file an exercise."""
