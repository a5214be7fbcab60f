"""The exercises of lesson 12."""
