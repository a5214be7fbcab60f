"""Lesson 05: its figures and its exercises, one file an exercise."""
