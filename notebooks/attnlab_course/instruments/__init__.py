"""What the lessons measure with: clocks, a machine that counts bytes, rooflines of hardware."""
