"""The exercises of lesson 19."""
