"""Charts and reports of jobs as HTML pages: what a page has to show, its figures, its text. No SQL, no files."""
