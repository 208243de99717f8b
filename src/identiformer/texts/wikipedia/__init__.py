"""Articles of Wikipedia, and segments of them."""
