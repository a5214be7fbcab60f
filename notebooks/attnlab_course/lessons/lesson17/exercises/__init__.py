"""The exercises of lesson 17."""
