"""One file per exercise: the reference solution, the inputs it is compared on, and graded hints."""
