"""Linear attention: its forms, its states, its features."""
