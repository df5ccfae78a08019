"""Turning texts into vectors: names of models, what runs them, and the store of what they made."""
