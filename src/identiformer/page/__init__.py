"""The page that reports, notebooks and the explorer share."""
