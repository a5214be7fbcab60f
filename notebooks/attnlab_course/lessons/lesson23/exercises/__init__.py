"""The exercises of lesson 23."""
