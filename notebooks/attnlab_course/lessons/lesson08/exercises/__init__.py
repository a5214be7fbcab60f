"""The exercises of lesson 08."""
