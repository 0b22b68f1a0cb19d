"""The gate: shows a human what is to be decided and brings back the decision."""
