"""What every algorithm needs of its array library: annotations, accumulation dtype, products, blocks, autograd."""
