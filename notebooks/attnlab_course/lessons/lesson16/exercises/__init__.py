"""The exercises of lesson 16."""
