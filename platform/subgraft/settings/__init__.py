"""What a configuration may say: a module for each part. `config` puts them together."""
