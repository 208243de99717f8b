"""The page that reports, notebooks and the explorer show, and the data that is put into it."""
