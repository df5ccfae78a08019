"""What is kept on disk between runs: vectors, token vectors, teacher scores, the facts of an encoder."""
