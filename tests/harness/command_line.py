"""Constants that the tests of the command line share."""

ROWS = 60  # number of rows in each of the files `numbers` and `tweets`
RUN = ("--algorithm", "PAA-I", "--json")
TWEETS = ("--text", "title", "--text", "body", "--label", "topics", "--positive", "mood", "--contains")
