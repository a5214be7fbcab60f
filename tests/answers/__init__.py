"""Answers to the exercises, by lesson: right ones written in other ways, and ones to refuse."""
