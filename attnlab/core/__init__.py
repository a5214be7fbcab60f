"""What the functions share: how a call is checked, bundled and sent to its library. It's promised to nobody."""
