"""Claude Code's hooks: what they are answered, and how they get into its settings."""
