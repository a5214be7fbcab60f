"""Lesson 20: its figures and its exercises, one file an exercise."""
