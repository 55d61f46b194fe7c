#!/bin/bash
# venv.sh PYTHON FOLDER REQUIREMENTS: a virtual environment that holds just the pinned packages and gpuherd.
#
# A stamp keeps the hash of all that went in, so a second call costs some milliseconds. Where packages come
# from is the business of the machine's pip configuration; nothing here names an index.
set -euo pipefail

python=$1 folder=$2 requirements=$3

cd "$(dirname "$0")/.."
wanted=$( { "$python" --version; pwd; cat "$requirements" pyproject.toml; } | sha256sum | cut -d' ' -f1)
stamp=$folder/.complete
if [[ $(cat "$stamp" 2>/dev/null) == "$wanted" ]]; then
  exit 0
fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "gpuherd needs Python 3.11 or later; $python is $("$python" --version 2>&1)" >&2
  exit 1
}
rm -f "$stamp"
echo "setting up $folder (about two minutes the first time)"
if [[ ! -x $folder/bin/pip ]]; then
  "$python" -m venv "$folder" || { echo "is the package python3-venv installed?" >&2; exit 1; }
fi
"$folder/bin/pip" install -q --require-hashes -r "$requirements"
"$folder/bin/pip" install -q --no-deps --no-build-isolation -e .
echo "$wanted" > "$stamp"
