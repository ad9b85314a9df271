"""What logged reflections say: judged ones are counted with the tries that followed them."""

import hashlib
import json

from click.testing import CliRunner

from benchmarks.lessons import reflections


def test_what_was_judged_is_counted_with_the_tries_that_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(reflections, "JUDGED", tmp_path / "judged.jsonl")
    said = {"Look left.": "act", "Think.": "none"}
    rows = [
        {"log": "log", "text": hashlib.sha256(text.encode()).hexdigest()[:16], "says": says}
        for text, says in said.items()
    ]
    (tmp_path / "judged.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    household = {
        "success_by_trial": [False, False, True],
        "reflections": [{"after_trial": 0, "text": "Think."}, {"after_trial": 1, "text": "Look left."}],
    }
    first = {"reflections_after": ["Other.", "Look left."], "logged_correct": False}
    question = {"trials": [first, {"reflections_after": ["Think."], "logged_correct": False}]}
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(map(json.dumps, [household, question])), encoding="utf-8")
    found = {
        says: (of.successes, of.n, won and (won.successes, won.n))
        for _, says, of, won in reflections.said_rows([log])
    }
    assert found == {"act": (1, 2, (1, 2)), "ruled out": (0, 2, None), "none": (1, 2, (0, 1))}
    done = CliRunner().invoke(reflections.main, [str(log), "--out", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0
    page = (tmp_path / "lessons_reflections.md").read_text(encoding="utf-8")
    assert "| log | ruled out | 0/2 = 0.0%" in page
