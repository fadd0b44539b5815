"""What the tests of the command line say again and again."""

ROWS = 60  # of the files `numbers` and `tweets`
RUN = ("--algorithm", "PAA-I", "--json")
TWEETS = ("--text", "title", "--text", "body", "--label", "topics", "--positive", "mood", "--contains")
