"""What scores (query, document) pairs: one teacher a file, behind one protocol."""
