"""The matrix of attacks says what got through."""

import json

from click.testing import CliRunner

from benchmarks.sandbox import matrix


def test_the_matrix_says_which_attack_got_through(tmp_path, monkeypatch):
    def attacked(way, *, nobody=False):
        if way == "landlock":
            return "this kernel has no Landlock"
        return {"endless": "", "sockets": "ended as value" if nobody else "", "host": ""}

    monkeypatch.setattr(matrix, "attacked", attacked)
    monkeypatch.setattr(matrix.os, "geteuid", lambda: 0)
    done = CliRunner().invoke(matrix.main, ["--out", str(tmp_path)])
    assert done.exit_code == 1
    page = (tmp_path / "sandbox-attacks.md").read_text()
    none = "this kernel has no Landlock"
    assert "| namespaces, root | 3 of 3 |  |" in page
    assert "| namespaces, nobody | 2 of 3 | **sockets**: ended as value |" in page
    assert f"| landlock, root | {none} |  |" in page
    assert json.loads((tmp_path / "sandbox-attacks.json").read_text())["landlock, root"] == none
    monkeypatch.setattr(matrix, "attacked", lambda way, *, nobody=False: {"endless": "", "host": ""})
    assert CliRunner().invoke(matrix.main, ["--out", str(tmp_path)]).exit_code == 0
