"""Which series to label next, and a page to label them."""
