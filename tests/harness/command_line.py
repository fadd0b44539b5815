"""Options and a number that the tests of the command line share."""

ROWS = 60  # of the files `numbers` and `tweets`
RUN = ("--algorithm", "PAA-I", "--json")
TWEETS = ("--text", "title", "--text", "body", "--label", "topics", "--positive", "mood", "--contains")
