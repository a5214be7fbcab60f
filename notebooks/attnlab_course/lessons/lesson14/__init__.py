"""Lesson 14: its figures and its exercises, one file an exercise."""
