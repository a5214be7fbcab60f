"""The exercises of lesson 24."""
