"""Training: SFT on verified pairs, then GRPO with a reward that is rule AND execution, given by the one judge."""
