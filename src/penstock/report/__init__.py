"""Reports: parts as data (`rows`), and what prints them (`terminal`, `html`)."""
