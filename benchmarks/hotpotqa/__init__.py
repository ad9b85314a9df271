"""HotpotQA: questions that need two paragraphs to answer (Yang et al. 2018)."""
