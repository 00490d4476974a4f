"""The process that reads weights in PyTorch's pickle format.

    python -P -m subgraft.modeling.weights_process DIRECTORY OUT PARENT

PyTorch's reader executes only those pickle instructions that create tensors (`weights_only`). The separate process is a
second line of defence: it reads files from one folder and writes to another. A pickle can demand any amount of time and
memory, so the operating system limits both. The process ends when PARENT ends.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.base.limits import CONVERSION_MEMORY
from subgraft.base.terminal_escaping import say
from subgraft.modeling.confinement import end_with_parent, limit_memory, limit_processor_time
from subgraft.modeling.torch_files import conversion_seconds, largest, torch_files

# A file as PyTorch has read it, as tensors of their own, as safetensors' bytes, and what the allocator wastes.
COPIES_IN_MEMORY = 4


def main() -> int:
    directory, out = map(Path, sys.argv[1:3])
    end_with_parent(int(sys.argv[3]))
    try:
        import torch

        from subgraft.modeling.torch_weights import rewrite

        torch.set_num_threads(1)  # the stacks of others would count as memory
        files = torch_files(directory)
        limit_processor_time(conversion_seconds(files))
        limit_memory(COPIES_IN_MEMORY * largest(files) + CONVERSION_MEMORY.value)
        rewrite(files, out)
    except UserError as error:
        say(json.dumps({"what": error.what, "where": error.where, "hint": error.hint}), to=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
