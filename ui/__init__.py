"""What the pages share: page frame, the labeling card and its server side, charts and forms."""
