"""What a configuration may say: a module for each part, `experiment` puts them together, `configfile` reads them."""
