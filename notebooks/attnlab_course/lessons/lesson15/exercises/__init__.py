"""The exercises of lesson 15."""
