"""Negatives of other people's files in, mined sets for other trainers out."""
