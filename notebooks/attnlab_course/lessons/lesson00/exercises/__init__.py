"""The exercises of lesson 00."""
