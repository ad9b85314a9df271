"""HumanEval, MBPP and files of the same forms: Reflexion for code, judged by tests that the agent writes itself."""
