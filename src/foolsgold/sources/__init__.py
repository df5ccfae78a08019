"""Where candidates come from: one file a source, one Protocol."""
