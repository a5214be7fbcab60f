"""attnlab in the layers and models of other libraries."""
