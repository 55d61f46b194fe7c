#!/bin/bash
# demo.sh PYTHON: play the demo in .venv when it is complete, else in a smaller environment of its own.
set -euo pipefail

cd "$(dirname "$0")/.."
folder=.venv
if [[ ! -f $folder/.complete ]]; then
  folder=.venv-demo
  scripts/venv.sh "$1" "$folder" requirements/demo.txt
fi
exec "$folder/bin/agentctl" demo
