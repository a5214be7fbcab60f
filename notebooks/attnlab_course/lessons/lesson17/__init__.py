"""Lesson 17: its figures and its exercises, one file an exercise."""
