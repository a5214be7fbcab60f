"""The exercises of lesson 21."""
