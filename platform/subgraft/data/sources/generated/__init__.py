"""The built-in corpus: generated English and German sentences in two domains, everyday life and the law.

It shows the machinery of the project; it does not show that one method beats another.
"""

from subgraft.data.sources.generated.corpus import VERSION, pairs

__all__ = ["VERSION", "pairs"]
