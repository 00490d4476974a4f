"""The process that reads weights in PyTorch's own form.

    python -P -m subgraft.modeling.weights_process DIRECTORY OUT PARENT

PyTorch's reader follows no instruction of a pickle but those that make tensors (`weights_only`); should that ever fail
it, there is nothing here but one file to read and one folder to write to. What a pickle makes it do may take any time
and memory: both are limited by the system. It ends with the process PARENT.
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
