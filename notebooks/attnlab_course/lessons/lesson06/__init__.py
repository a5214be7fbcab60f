"""Lesson 06: its figures and its exercises, one file an exercise."""
