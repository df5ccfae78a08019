"""A mined set on disk, and the questions it answers: what it holds, why, and how it differs from another."""
