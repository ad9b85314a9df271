"""Whether a task that improves its own instructions succeeds more often from run to run."""
