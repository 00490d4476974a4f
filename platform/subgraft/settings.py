"""The settings of an experiment's parts: each typed and frozen, one group a class. `config` puts them together."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Split = Literal["train", "dev", "test"]
SideName = Literal["encoder", "decoder"]
VocabularyKind = Literal["unigram", "bpe", "wordpiece"]
UpstreamObjective = Literal["translation", "denoising", "masked"]
StaticAlgorithm = Literal["skip-gram", "cbow", "fasttext"]
TaskName = Literal["translation", "question-generation", "text-to-text"]
# Of as many bits as everything that draws from one takes.
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Settings(BaseModel):
    """Base of every group of settings: frozen, and unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Languages(Settings):
    source: str
    target: str


class UrlFile(Settings):
    """A file to download; `sha256` is of the bytes as downloaded."""

    url: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ColumnFiles(Settings):
    """Pairs in columns of a file: tab-separated ones by number, from 1, or fields of JSON lines by name.

    folder: {train,dev,test}.tsv[.gz], or .jsonl[.gz] where columns are named.  files: a path per split.
    source, target: a column, or several, joined by `separator`; of a field that is a list, its first item.
    """

    folder: str | None = None
    files: dict[Split, str] | None = None
    source: int | str | tuple[int | str, ...] = 1
    target: int | str | tuple[int | str, ...] = 2
    separator: str = " "

    @property
    def sides(self) -> tuple[tuple[int | str, ...], tuple[int | str, ...]]:
        """The columns of the source and of the target."""
        source, target = (side if isinstance(side, tuple) else (side,) for side in (self.source, self.target))
        return source, target

    @property
    def named(self) -> bool:
        """Whether columns are fields of JSON lines."""
        return isinstance(self.sides[0][0], str)

    @model_validator(mode="after")
    def _consistent(self) -> ColumnFiles:
        if (self.folder is None) == (self.files is None):
            raise ValueError("give exactly one of folder, files")
        if not all(self.sides):
            raise ValueError("source and target need a column each")
        columns = [column for side in self.sides for column in side]
        if len({isinstance(column, str) for column in columns}) > 1:
            raise ValueError("columns are numbers (tab-separated) or names (JSON lines), not both")
        if any(isinstance(column, int) and column < 1 for column in columns):
            raise ValueError("columns are counted from 1")
        return self


class CorpusSource(Settings):
    """Where a corpus comes from: exactly one of the seven.

    generated: a domain of the built-in corpus.  folder: {train,dev,test}.{language}[.gz], looked up beside the
    configuration file, then under SUBGRAFT_DATA; of a pair in one language, {train,dev,test}.{source,target}[.gz].
    files: paths per split, source then target (or one, monolingual).  urls: the same as downloads.  mtdata: a dataset
    id per split.  squad: questions in SQuAD's JSON, as {train,dev,test}.json[.gz] in a folder or a path per split.
    columns: pairs in columns of a file.
    """

    generated: Literal["everyday", "law"] | None = None
    folder: str | None = None
    files: dict[Split, tuple[str, ...]] | None = None
    urls: dict[Split, tuple[UrlFile, ...]] | None = None
    mtdata: dict[Split, str] | None = None
    squad: str | dict[Split, str] | None = None
    columns: ColumnFiles | None = None
    limit: dict[Split, Annotated[int, Field(gt=0)]] = {}

    @model_validator(mode="after")
    def _exactly_one(self) -> CorpusSource:
        kinds = ("generated", "folder", "files", "urls", "mtdata", "squad", "columns")
        given = [name for name in kinds if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(f"give exactly one of {', '.join(kinds)} (given: {', '.join(given) or 'none'})")
        return self


class Cleaning(Settings):
    """Rules a training pair must pass; dev and test are only stripped, never filtered.

    Lengths are characters of either side; the ratio is the longer side over the shorter. null: no such rule.
    """

    min_characters: Annotated[int, Field(ge=1)] = 1
    max_characters: Annotated[int, Field(ge=1)] | None = 1000
    max_ratio: Annotated[float, Field(ge=1.0)] | None = 5.0
    drop_identical: bool = False
    deduplicate: bool = True
    drop_held_out: bool = True


class QuestionGenerationSettings(Settings):
    """What a model reads to ask a question: a passage with the answer marked.

    window: characters of the passage that are kept around the answer, marks not counted.  marks: what is written
    before and after the answer; text, which the encoder's vocabulary must be able to spell.
    """

    window: Annotated[int, Field(ge=1)] = 600
    marks: tuple[Annotated[str, Field(pattern=r"^\S+$")], Annotated[str, Field(pattern=r"^\S+$")]] = ('"-', '-"')


class VocabularySettings(Settings):
    """A vocabulary to learn; `size` counts everything, special tokens included."""

    kind: VocabularyKind = "unigram"
    size: Annotated[int, Field(ge=50)] = 8000


class JointVocabularySettings(VocabularySettings):
    """The vocabulary of upstream and downstream text together, for rows with `pretraining: joint-vocabulary`.

    weighing: the texts count as large as they are, or equally: then the smaller one is repeated a whole number of
    times, until it has about as many characters as the larger.
    """

    weighing: Literal["as-they-are", "equal"] = "as-they-are"


class SamplingSettings(Settings):
    """How text is cut anew each time a sentence is seen, for rows with `pretraining: sampled`.

    dropout: chance that a merge is left out, for bpe (Provilkov et al. 2020, section 3).  alpha: exponent on the
    probability of a segmentation, for unigram; towards zero all are equally likely (Kudo 2018, section 3.3).  sides:
    whose text is sampled; the other side is cut plainly.
    """

    dropout: Share = 0.1
    alpha: Annotated[float, Field(gt=0)] = 0.2
    sides: Annotated[tuple[SideName, ...], Field(min_length=1)] = ("encoder", "decoder")


class ModelSettings(Settings):
    """Size of a Transformer; the vocabularies' sizes come on top.

    A bert is pretrained as an encoder, of encoder_layers. The encoder-decoder made from it begins with its weights on
    both sides, so decoder_layers must be as many.
    """

    family: Literal["marian", "mbart", "bert"] = "marian"
    d_model: Annotated[int, Field(ge=8)]
    encoder_layers: Annotated[int, Field(ge=1)]
    decoder_layers: Annotated[int, Field(ge=1)]
    attention_heads: Annotated[int, Field(ge=1)]
    ffn_dim: Annotated[int, Field(ge=8)]
    dropout: Share = 0.1
    attention_dropout: Share = 0.0
    activation_dropout: Share = 0.0
    max_positions: Annotated[int, Field(ge=16)] = 512

    @model_validator(mode="after")
    def _heads_divide(self) -> ModelSettings:
        if self.d_model % self.attention_heads:
            raise ValueError(f"d_model {self.d_model} is not divisible by attention_heads {self.attention_heads}")
        return self

    @model_validator(mode="after")
    def _both_sides_of_a_bert_alike(self) -> ModelSettings:
        if self.family == "bert" and self.encoder_layers != self.decoder_layers:
            raise ValueError(
                f"a bert gives its layers to both sides: encoder_layers {self.encoder_layers} and "
                f"decoder_layers {self.decoder_layers} must be equal"
            )
        if self.family == "bert" and self.activation_dropout:
            raise ValueError("a bert has no activation_dropout")
        return self


class TrainingSettings(Settings):
    """One training: everything that decides its result. Device, threads and workers are `Runtime`.

    batch_size is the global batch, padding included, in units of `batch_unit`: target tokens of the row's own
    vocabulary, or target characters, which are the same for every vocabulary. The learning rate warms up linearly over
    `warmup_steps` and then falls with the inverse square root of the step. table_learning_rate: its peak for the tables
    of the sides whose vocabulary changes, where new rows have further to go than the rest of the model.
    """

    epochs: Annotated[int, Field(ge=1)] | None = None
    max_steps: Annotated[int, Field(ge=1)] | None = None
    batch_size: Annotated[int, Field(ge=1)]
    batch_unit: Literal["tokens", "characters"] = "tokens"
    micro_batch_size: Annotated[int, Field(ge=1)] | None = None
    max_length: Annotated[int, Field(ge=4)] = 256
    learning_rate: Annotated[float, Field(gt=0)]
    table_learning_rate: Annotated[float | None, Field(gt=0, exclude_if=lambda given: given is None)] = None
    warmup_steps: Annotated[int, Field(ge=1)]
    adam_beta1: Share = 0.9
    adam_beta2: Share = 0.98
    adam_epsilon: Annotated[float, Field(gt=0)] = 1e-9
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    clip_norm: Annotated[float, Field(gt=0)] | None = 1.0
    label_smoothing: Share = 0.1
    precision: Literal["fp32", "bf16"] = "fp32"
    evaluations_per_epoch: Annotated[int, Field(ge=1)] = 1
    patience: Annotated[int, Field(ge=1)] | None = None
    dev_sentences: Annotated[int, Field(ge=1)] = 200

    @model_validator(mode="after")
    def _bounded(self) -> TrainingSettings:
        if self.epochs is None and self.max_steps is None:
            raise ValueError("give epochs, max_steps or both")
        return self


class ResegmentationSettings(Settings):
    """How unseen tokens are simulated inside words.

    merge_rate: chance that a token is merged with its right neighbour in the word (repeatedly, up to max_merge tokens).
    split_rate: chance that a token that was not merged is cut in two at a random place.
    """

    merge_rate: Share = 0.35
    split_rate: Share = 0.15
    max_merge: Annotated[int, Field(ge=2)] = 4


class GeneratorSettings(Settings):
    """Training of a generator, in all that rows share; its kind and kd_weight are the row's."""

    max_similar: Annotated[int, Field(ge=1)] = 10
    literal_equation: bool = False
    distillation_position: Literal["input", "prediction"] = "input"
    resegmentation: ResegmentationSettings = ResegmentationSettings()


class StaticEmbeddingSettings(Settings):
    """Static embeddings of the new vocabulary's tokens, trained on the task's text; the row's method says by what.

    dimensions: the model's `d_model` where not given.  min_count: tokens rarer than this get no vector.  The n-grams
    are fastText's.  Defaults are gensim's, but for the number of buckets, which a small vocabulary does not need.
    """

    dimensions: Annotated[int, Field(ge=1)] | None = None
    window: Annotated[int, Field(ge=1)] = 5
    epochs: Annotated[int, Field(ge=1)] = 5
    min_count: Annotated[int, Field(ge=1)] = 5
    negative_samples: Annotated[int, Field(ge=1)] = 5
    learning_rate: Annotated[float, Field(gt=0)] = 0.025
    min_ngram: Annotated[int, Field(ge=1)] = 3
    max_ngram: Annotated[int, Field(ge=1)] = 6
    ngram_buckets: Annotated[int, Field(ge=1)] = 50_000
    seed: Seed = 1

    @model_validator(mode="after")
    def _ngrams_ordered(self) -> StaticEmbeddingSettings:
        if self.min_ngram > self.max_ngram:
            raise ValueError(f"min_ngram {self.min_ngram} is above max_ngram {self.max_ngram}")
        return self


class TokenDistillationSettings(Settings):
    """Rows of new tokens by distilling hidden states (Dobler, Elliott and de Melo 2025), in all but its training.

    sentences_per_token: a sentence is read where one of its new tokens has been met in fewer than this.  layer: after
    which layer of the changed side states are compared, from 1; the last where not given.  distance: of two states,
    their mean squared difference, or the Euclidean distance.
    """

    sentences_per_token: Annotated[int, Field(ge=1)] = 100
    layer: Annotated[int, Field(ge=1)] | None = None
    distance: Literal["squared", "euclidean"] = "squared"


class NoiseSettings(Settings):
    """mBART's noise (Liu et al., TACL 2020, section 2.2): text infilling and sentence permutation."""

    mask_share: Share = 0.35
    poisson_lambda: Annotated[float, Field(gt=0)] = 3.5
    permute_sentences: bool = True
    sentences_per_document: Annotated[int, Field(ge=1)] = 4


class MaskingSettings(Settings):
    """BERT's masking (Devlin et al. 2019, section 3.1, task 1).

    share: of a sentence's tokens, those that are to be predicted, at least one.  masked, random: of these, the shares
    that the mask token and a random token stand for; the rest is left as it is.  sentences_per_document: half of
    the lines are read so many at a time, for tasks whose inputs are longer than the upstream sentences.
    """

    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.15
    masked: Share = 0.8
    random: Share = 0.1
    sentences_per_document: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _shares_add_up(self) -> MaskingSettings:
        if self.masked + self.random > 1.0:
            raise ValueError(f"masked {self.masked} and random {self.random} are more than the whole")
        return self


def _as_published(given: MaskingSettings) -> bool:
    return given == MaskingSettings()


class UpstreamSettings(Settings):
    """The pretrained side: either learnt here from a corpus, or a checkpoint (a local directory or a hub id).

    corpus is needed in both cases: generators are trained on it.  languages: of that corpus, where they are not the
    task's; left out of what the report records where they are.  objective: denoising is mBART's, masked BERT's; both
    take the sentences of each language for themselves.
    """

    corpus: str
    languages: Languages | None = Field(default=None, exclude_if=lambda given: given is None)
    objective: UpstreamObjective = "translation"
    vocabulary: VocabularySettings = VocabularySettings()
    checkpoint: str | None = None
    noise: NoiseSettings = NoiseSettings()
    masking: MaskingSettings = Field(default=MaskingSettings(), exclude_if=_as_published)
    sampling: SamplingSettings = SamplingSettings()
    seed: Seed = 1


class DownstreamSettings(Settings):
    """The task side: its corpus and the vocabulary it gets."""

    corpus: str
    vocabulary: VocabularySettings = VocabularySettings()


class EvaluationSettings(Settings):
    """max_length_ratio: an output ends at this many bytes of text for each byte of its source.

    calibration: whether the inference ECE is measured, which reads every output once more.
    upstream_sentences: so many sentences of the upstream corpus's test split are translated as well, by every finetuned
    model and by the one it began with: what was forgotten. Not done where it is not given.
    """

    beam: Annotated[int, Field(ge=1)] = 4
    batch_size: Annotated[int, Field(ge=1)] = 32
    max_length_ratio: Annotated[float, Field(gt=0)] = 2.5
    test_sentences: Annotated[int, Field(ge=1)] | None = None
    speed_sentences: Annotated[int, Field(ge=1)] = 128
    speed_repeats: Annotated[int, Field(ge=1)] = 3
    bootstrap_samples: Annotated[int, Field(ge=1)] = 1000
    calibration: bool = True
    upstream_sentences: Annotated[int, Field(ge=1)] | None = Field(default=None, exclude_if=lambda given: given is None)


class IntrinsicSettings(Settings):
    """The intrinsic quality of new rows: seen tokens are held out, and made again by each row's initialiser.

    tokens: how many; fewer where a fifth of those that qualify is less.  seed: which ones.
    """

    tokens: Annotated[int, Field(ge=1)] = 500
    seed: Seed = 1
