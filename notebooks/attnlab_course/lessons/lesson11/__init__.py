"""Lesson 11: its figures and its exercises, one file an exercise."""
