"""The exercises of lesson 18."""
