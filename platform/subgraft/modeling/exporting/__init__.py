"""Exports of finished models, for CTranslate2, transformers and the Hugging Face hub."""
