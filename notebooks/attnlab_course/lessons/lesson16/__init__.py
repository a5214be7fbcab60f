"""Lesson 16: its figures and its exercises, one file an exercise."""
