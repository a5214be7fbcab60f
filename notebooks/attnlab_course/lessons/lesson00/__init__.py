"""Lesson 00: its figures and its exercises, one file an exercise."""
