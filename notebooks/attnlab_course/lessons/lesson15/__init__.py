"""Lesson 15: its figures and its exercises, one file an exercise."""
