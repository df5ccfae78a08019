"""The commands of the command line that are more than a call, one file each; `cli` registers them."""
