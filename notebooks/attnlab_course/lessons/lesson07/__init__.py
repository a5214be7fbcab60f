"""Lesson 07: its figures and its exercises, one file an exercise."""
