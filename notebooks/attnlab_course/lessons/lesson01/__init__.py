"""Lesson 01: its figures and its exercises, one file an exercise."""
