"""Measures of a ranking, what a model scored by them query by query, and tests of whether one model is better."""
