"""Lesson 02: its figures and its exercises, one file an exercise."""
