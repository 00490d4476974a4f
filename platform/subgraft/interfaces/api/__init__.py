"""The functions of `import subgraft`, which the commands call too."""
