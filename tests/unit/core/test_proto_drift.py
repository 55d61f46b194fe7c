"""The committed gRPC code is what the pinned compiler makes of gcs.proto."""

import subprocess
import sys
from pathlib import Path

CORE = Path(__file__).parents[3] / "core"


def test_the_generated_code_is_current(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{CORE}", f"--python_out={tmp_path}"]
    subprocess.run([*command, f"--pyi_out={tmp_path}", "gpuherd/shell/gcs.proto"], check=True)
    for name in ("gcs_pb2.py", "gcs_pb2.pyi"):
        made, committed = (root / "gpuherd" / "shell" / name for root in (tmp_path, CORE))
        assert made.read_text() == committed.read_text(), f"{name}: run make proto"
