"""What a newcomer types first: ``init``, then ``doctor``."""

import json
import re
import shlex
import subprocess
import sys


def test_a_new_project_runs_as_it_is_and_lessons_help_it(cli, process, tmp_path):
    project = tmp_path / "my first"
    said = cli("init", project).stdout
    command = re.search(r"jeeves-reflexion (bench .*)", said)[1].split()
    assert f"cd {shlex.quote(str(project))}\n" in said

    running = process(*command, "--embedder", "hashing", cwd=project)
    out, err = running.communicate(timeout=60)

    assert running.returncode == 0, err
    assert re.search(r"\| retry \| 0/6 .*\| 0/6 ", out)
    assert re.search(r"\| selective \| 0/6 [^|]*\| 6/6 ", out)


def test_init_never_changes_what_is_there(cli, tmp_path):
    (tmp_path / "tasks.jsonl").write_text("mine")
    result = cli("init", tmp_path)
    assert result.exit_code == 3
    assert f"{tmp_path / 'tasks.jsonl'} exists already" in result.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["tasks.jsonl"]
    assert (tmp_path / "tasks.jsonl").read_text() == "mine"


def test_doctor_tells_what_is_there_and_no_key(cli, fill, server, monkeypatch, place):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-user-123456789")
    fill([("When was the report signed?", "Write dates in ISO 8601.")])
    options = ("--model", "tiny", "--base-url", server.url)
    told, machine = cli("doctor", *options), cli("doctor", *options, "--json")
    assert told.exit_code == machine.exit_code == 0
    for text in (told.output, machine.output):
        assert "sk-of-a-user" not in text
        for words in (
            "1 lesson in namespace 'default'",
            "OPENAI_API_KEY is set",
            "tiny answered in",
            str(place),
        ):
            assert words in text, words
    found = json.loads(machine.stdout)
    assert found["works"] is True
    assert "faiss" in found["extras"]
    assert server.keys == ["Bearer sk-of-a-user-123456789"] * 2


def test_doctor_tells_what_fails_by_its_exit_code(cli, dead_url, server, place):
    dead = cli("doctor", "--model", "tiny", "--base-url", dead_url)
    assert dead.exit_code == 4
    assert "is it running?" in dead.stdout
    assert "no lessons yet" in dead.stdout

    assert cli("doctor", "--model", "tiny").exit_code == 3  # no key

    place.write_text("mine")
    file = cli("doctor")
    assert (file.exit_code, "is a file, not the folder of a lesson store" in file.stdout) == (3, True)
    place.unlink()

    place.mkdir()
    (place / "store.sqlite3").write_text("no database")
    damaged = cli("doctor", "--model", "tiny", "--base-url", server.url)
    assert damaged.exit_code == 5, damaged.stdout
    assert "tiny answered" in damaged.stdout  # one failure hides no other answer


def test_doctor_writes_nothing(cli, place, tmp_path):
    assert cli("doctor").exit_code == 0
    assert not place.exists()
    assert not list(tmp_path.iterdir())


def test_completion_knows_the_commands():
    script = "from jeeves_reflexion.cli import main; main()"
    environment = {
        "_JEEVES_REFLEXION_COMPLETE": "bash_complete",
        "COMP_WORDS": "jeeves-reflexion do",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.argv[0] = 'jeeves-reflexion'; {script}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["plain,doctor"], done.stderr
