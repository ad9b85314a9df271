"""HumanEval and files of its form: Reflexion for code, judged by tests that the agent writes."""
