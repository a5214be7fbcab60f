"""The exercises of lesson 26."""
