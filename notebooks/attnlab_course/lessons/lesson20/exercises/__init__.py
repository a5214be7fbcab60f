"""The exercises of lesson 20."""
