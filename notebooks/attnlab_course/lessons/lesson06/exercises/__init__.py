"""The exercises of lesson 06."""
