"""Lesson 21: its figures and its exercises, one file an exercise."""
