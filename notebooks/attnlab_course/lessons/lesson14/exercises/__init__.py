"""The exercises of lesson 14."""
