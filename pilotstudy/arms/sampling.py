"""How many passes make a sampled prediction; without torch, for those who read runs."""

MC_SAMPLES = 10
