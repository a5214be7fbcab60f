"""The exercises of lesson 22."""
