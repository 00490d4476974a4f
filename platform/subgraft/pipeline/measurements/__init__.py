"""The measurements of finetuned systems: `registry` lists them, and a file has one."""
