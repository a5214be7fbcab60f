"""Softmaxes of a vector and the laws of ⊕."""
