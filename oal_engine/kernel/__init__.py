"""What is compiled: rows, learners, query rules, and the one loop over a stream."""
