"""ALFWorld: household tasks played as text in ALFWorld's own engine, in processes of its own."""
