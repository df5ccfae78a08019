"""The stages that a block of queries goes through, one file each, in the order of `mine.mine_block`."""
