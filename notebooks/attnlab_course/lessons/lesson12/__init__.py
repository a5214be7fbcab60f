"""Lesson 12: its figures and its exercises, one file an exercise."""
