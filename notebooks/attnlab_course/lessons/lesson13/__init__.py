"""Lesson 13: its figures and its exercises, one file an exercise."""
