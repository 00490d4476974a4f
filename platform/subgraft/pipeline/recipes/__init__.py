"""Recipes: the settings of each stage, which determine its fingerprint. They import none of the stages' libraries."""
