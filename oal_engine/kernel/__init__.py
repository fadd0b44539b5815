"""The compiled core: learners, query rules, draws, budget, metrics, and the loop over a stream."""
