"""The exercises of lesson 10."""
