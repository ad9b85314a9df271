"""The package as it is imported: what it exports, what it loads, and how long that takes."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

from tables import table

import jeeves_reflexion

HEAVY = {
    "torch",
    "faiss",
    "psycopg",
    "matplotlib",
    "textworld",
    "sentence_transformers",
    "pydantic",
    "numpy",
    "anyio",
}

PROBE = """
import time, sys, json
before = set(sys.modules)
started = time.process_time()
import jeeves_reflexion
seconds = time.process_time() - started
print(json.dumps({"seconds": seconds, "modules": sorted({name.split(".")[0] for name in sys.modules})}))
"""

USE = """
import json, sys
from jeeves_reflexion import Reflexion, Session, Task, Usage
Reflexion(lambda prompt: "a", evaluator=lambda output: 1.0, reflector=lambda task, trials: "x").run_sync("x")
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""


def _python(code: str):
    return json.loads(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    )


def test_importing_it_is_quick_and_loads_nothing_heavy():
    runs = [_python(PROBE) for _ in range(3)]
    assert not HEAVY & set(runs[0]["modules"])
    assert min(run["seconds"] for run in runs) < 0.15


def test_a_loop_of_plain_functions_loads_no_model_and_no_index():
    heavy = (HEAVY | {"httpx"}) - {"pydantic", "numpy", "anyio"}
    assert not heavy & set(_python(USE))


def test_all_is_sorted_and_is_what_there_is():
    names = jeeves_reflexion.__all__
    assert names == sorted(set(names), key=lambda name: (not name.isupper(), name))
    assert dir(jeeves_reflexion) == sorted(names)
    for name in names:
        assert getattr(jeeves_reflexion, name) is not None


@table("package", ["jeeves_reflexion", "vectorstores"])
def test_every_public_name_is_there_and_comes_with_a_star(package):
    module = importlib.import_module(package)
    names: dict[str, object] = {}
    exec(f"from {package} import *", names)
    assert set(module.__all__) <= set(names)
    assert all(names[name] is getattr(module, name) for name in module.__all__)


def test_the_names_of_the_stores_come_from_here_too():
    import vectorstores

    assert jeeves_reflexion.open_store is vectorstores.open_store
    assert jeeves_reflexion.FaissVectorStore is vectorstores.FaissVectorStore


def test_another_package_that_hides_the_stores_is_an_error_with_its_path(tmp_path):
    (tmp_path / "vectorstores.py").write_text("")
    code = "import sys; sys.path.insert(0, sys.argv[1]); import jeeves_reflexion"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert f"is hidden by another one at {tmp_path}/vectorstores.py" in done.stderr


def test_a_name_that_is_not_there_is_an_attribute_error():
    assert not hasattr(jeeves_reflexion, "Nonsense")


def test_the_default_prompts_are_those_that_are_used():
    from jeeves_reflexion import DEFAULT_EVALUATOR_PROMPT, DEFAULT_REFLECTOR_PROMPT, Reflexion, ScriptedModel

    model = ScriptedModel(["an answer", "score: 0.1", "Look left."])
    Reflexion(model=model, max_attempts=1).run_sync("find the key")
    assert [call.messages[0].content for call in model.calls[1:]] == [
        DEFAULT_EVALUATOR_PROMPT,
        DEFAULT_REFLECTOR_PROMPT,
    ]


def test_a_store_in_memory_without_a_namespace_has_one_of_its_own():
    import anyio

    from jeeves_reflexion import InMemoryVectorStore
    from vectorstores import Chunk, HashingEmbedder

    async def fill() -> list[int]:
        embedder = HashingEmbedder()
        stores = [InMemoryVectorStore(embedder=embedder) for _ in range(2)]
        await stores[0].add([Chunk("put the mug on the desk")])
        assert len({store.namespace for store in stores}) == 2
        return [await store.count() for store in stores]

    assert anyio.run(fill) == [1, 0]
