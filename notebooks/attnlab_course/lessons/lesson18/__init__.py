"""Lesson 18: its figures, its exercises, one file an exercise, and what longer trainings left behind."""
