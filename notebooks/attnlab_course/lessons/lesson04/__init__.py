"""Lesson 04: its figures and its exercises, one file an exercise."""
