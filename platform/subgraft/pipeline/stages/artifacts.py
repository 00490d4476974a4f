"""Names of files that stages write for the report, which can so be made without importing those stages."""

# Of an evaluation: sentence statistics by metric, see `metrics.sentence_statistics`; and under SPELLED
# [n], whether neither source nor reference has an unknown token in the model's vocabularies. Of text that is continued,
# for each test line [n]: the bits of its tokens and of its end, none where the model cannot take it whole; and its
# characters, as many as these bits are of.
STATISTICS = "statistics.safetensors"
SPELLED = "spelled"
BITS, CHARACTERS = "bits", "characters"
# Of rows that are known, made again.
QUALITY = "intrinsic.json"
# Bits by how common tokens are.
LIKELIHOOD = "likelihood.json"
