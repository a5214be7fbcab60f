"""Every algorithm of every library: one answer, one gradient, the promised memory, under every transform."""
