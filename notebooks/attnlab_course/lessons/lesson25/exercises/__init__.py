"""The exercises of lesson 25."""
