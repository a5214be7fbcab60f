"""The exercises of lesson 13."""
