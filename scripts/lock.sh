#!/bin/bash
# Resolve requirements/*.txt anew from pyproject.toml. Needs uv. dev.txt first: the others follow it.
# Extras stay written: pip takes the newest release for `name[extra]` of a dependency when only the bare
# name is pinned, and then refuses it for want of a hash.
set -euo pipefail

cd "$(dirname "$0")/.."
compile=(uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --no-strip-extras
  --python-version 3.11 pyproject.toml)
"${compile[@]}" --all-extras --group dev -o requirements/dev.txt
"${compile[@]}" -c requirements/dev.txt --extra sim --group build -o requirements/demo.txt
"${compile[@]}" -c requirements/dev.txt -o requirements/agent.txt
