"""What `import subgraft` offers: the commands' work as functions, which the commands call themselves."""
