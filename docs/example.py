"""Subgraft in Python, cell by cell: a model, the vocabulary of its task, a generator for it, and translations.

Editors, and Jupyter through jupytext, show `# %%` as cells. It reads parallel text from two folders, `everyday` and
`manuals`, each with train, dev and test in `.en` and `.fr`, and may be run again: finished steps are not repeated.
"""

# %% [markdown]
# ## A model
# `run` does what `subgraft run` does. This configuration pretrains a small model on everyday sentences and finetunes it
# for manuals, its vocabulary as it is. A model of your own needs none of it: `load` takes directories and hub ids too.

# %%
from pathlib import Path

import subgraft

CONFIGURATION = """
name: example
languages: {source: en, target: fr}
corpora:
  everyday: {folder: everyday}
  manuals: {folder: manuals}
upstream: {corpus: everyday, vocabulary: {size: 400}}
downstream: {corpus: manuals, vocabulary: {size: 500}}
model: {d_model: 64, encoder_layers: 1, decoder_layers: 1, ffn_dim: 128}
pretrain: {epochs: 3, learning_rate: 0.003, warmup_steps: 20}
finetune: {learning_rate: 0.002, warmup_steps: 5, select: likelihood}
generator_training: {max_steps: 5, batch_size: 1000}
systems:
  - {name: pretrain-finetune, vocabulary: upstream}
evaluation: {beam: 1, test_sentences: 50, speed_sentences: 8, speed_repeats: 1}
"""
Path("example.yaml").write_text(CONFIGURATION, encoding="utf-8")
finished = subgraft.run("example.yaml", {"finetune.epochs": 2})
finished.table

# %%
model = subgraft.load("models:/example-en-fr@champion")
model.languages, model.bundle.model.num_parameters()

# %% [markdown]
# ## The task's vocabulary
# `like` takes over the model's special tokens. Text is lines, or files of lines.

# %%
vocabulary = subgraft.learn_vocabulary([Path("manuals/train.fr")], size=500, like=model)
sentence = "Ouvrez le fichier de configuration."
old, new = model.bundle.decoder, vocabulary
[old.pieces[token] for token in old.encode(sentence)], [new.pieces[token] for token in new.encode(sentence)]

# %% [markdown]
# ## Embeddings for it
# The mean of their old pieces is where most begin. A generator learns how to mix them, on text such as the model was
# pretrained on; one does for all tasks of a model.

# %%
fitted = subgraft.transfer(model, vocabulary, method="mean")
fitted.reports["decoder"]

# %%
generator = Path("generator")
if not generator.exists():
    pairs = ("everyday/train.en", "everyday/train.fr")
    subgraft.train_generator(
        "models:/example-en-fr@champion", pairs=pairs, languages=("en", "fr"), kind="patt", steps=5, out=generator
    )
generated = subgraft.transfer(model, vocabulary, method="patt", generator=generator)

# %% [markdown]
# ## Finetuning
# Its new embeddings are where training starts. `finetune` returns the scores on dev, as a table, a frame and a plot;
# `subgraft fit` compares with the old vocabulary too.

# %%
if not Path("finetuned").exists():
    files = Path("manuals/train.en"), Path("manuals/train.fr")
    finetuned = subgraft.finetune(generated, files, languages=("en", "fr"), steps=20, out="finetuned", progress=False)
    display(finetuned, finetuned.plot())  # type: ignore[name-defined]  # noqa: F821

# %% [markdown]
# ## Translations
# `save` writes a directory that `load`, every command and a configuration's `upstream.checkpoint` read.

# %%
texts = ["Open the configuration file.", "The module is loaded when Python starts."]
translations = {
    name: subgraft.translate(made, texts) for name, made in (("as it is", model), ("mean", fitted), ("patt", generated))
}
if not Path("fitted").exists():
    generated.save("fitted")
translations
