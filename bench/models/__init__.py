"""Other systems as models, to compare with."""
