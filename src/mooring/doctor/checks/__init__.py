"""One family of checks a file; each is a pure function from a survey to what it finds."""
