"""Writers of files and pages, independent of their contents."""
