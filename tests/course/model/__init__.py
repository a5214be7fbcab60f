"""The model: one definition in three libraries, any attention plugged in, and how it is trained."""
