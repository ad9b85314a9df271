"""Asks real servers for a chat, a call of a tool, a streamed answer and an error: ``model_servers.py NAME FOLDER``.

``scripts/test-servers`` runs it, each server in an environment of its own. The models are tiny, with random weights
that are made on the spot, so what they say means nothing; behind LiteLLM stands a server of this file, whose answers
are known. Prints a table, and ends with 1 where something did not go as it should.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import re
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import httpx

from jeeves_reflexion import AnthropicModel, Completion, Message, OpenAIModel, Sampling, Session
from jeeves_reflexion.errors import ModelError
from jeeves_reflexion.events import TextStreamed
from jeeves_reflexion.models import AnthropicOptions, Retry
from jeeves_reflexion.protocols import ToolSpec

HELLO = [Message("system", "Be brief."), Message("user", "Say hello.")]
LOOK = ToolSpec(
    "look",
    "Looks at a place.",
    {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
)
SAID = "Grüße \U0001f44b an alle."
CALL = {"place": "the Küche"}
TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
KEY = f"sk-{secrets.token_hex(32)}"
SHORT = Sampling(max_tokens=12)


# -- what stands behind LiteLLM


class Backend(BaseHTTPRequestHandler):
    """Says ``SAID``, calls the tool where one is offered, and is overloaded where the user says "fail"."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "fail" in json.dumps(body["messages"][-1]):
            self._send(
                429, "application/json", json.dumps({"error": {"message": "slow down", "type": "rate_limit"}})
            )
            return
        wants_call = "tools" in body and body["messages"][-1]["role"] != "tool"
        call = {
            "index": 0,
            "id": "call_1",
            "type": "function",
            "function": {"name": "look", "arguments": json.dumps(CALL)},
        }
        said = {"content": None, "tool_calls": [call]} if wants_call else {"content": SAID}
        reason = "tool_calls" if wants_call else "stop"
        usage = {"prompt_tokens": 40, "completion_tokens": 10, "total_tokens": 50}
        head = {"id": "c1", "created": 1, "model": "tiny"}
        if not body.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", **said}, "finish_reason": reason}
            whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
            self._send(200, "application/json", json.dumps(whole))
            return
        if wants_call:
            begun = {**call, "function": {"name": "look", "arguments": ""}}
            rest = {"index": 0, "function": {"arguments": json.dumps(CALL)}}
            parts: list[dict[str, Any]] = [{"tool_calls": [begun]}, {"tool_calls": [rest]}]
        else:
            parts = [{"content": word} for word in re.findall(r"\S+\s?", SAID)]
        chunks = [
            {"index": 0, "delta": part, "finish_reason": None} for part in ({"role": "assistant"}, *parts)
        ]
        events = [{**head, "object": "chat.completion.chunk", "choices": [chunk]} for chunk in chunks]
        events.append({**events[0], "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        events.append({**events[0], "choices": [], "usage": usage})
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        self._send(200, "text/event-stream", "".join([*lines, "data: [DONE]\n\n"]))

    def _send(self, status: int, kind: str, text: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def backend() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Backend) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


# -- servers


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@contextlib.contextmanager
def serving(command: list[str], port: int, folder: Path) -> Iterator[str]:
    """Start a server, wait until it answers, and end it."""
    base = f"http://127.0.0.1:{port}/v1"
    log = folder / "server.log"
    with log.open("w") as out:
        offline = {**os.environ, "HF_HUB_OFFLINE": "1"}
        server = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder, env=offline)
    try:
        for _ in range(240):
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"{base}/models", timeout=5)  # any answer will do
                break
            if server.poll() is not None:
                break
            time.sleep(0.5)
        else:
            sys.exit(f"the server did not start:\n{log.read_text()[-2000:]}")
        if server.poll() is not None:
            sys.exit(f"the server ended:\n{log.read_text()[-2000:]}")
        yield base
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()


@contextlib.contextmanager
def litellm(folder: Path) -> Iterator[tuple[str, str]]:
    with backend() as behind:
        params = {"model": "custom_openai/tiny", "api_base": behind, "api_key": "sk-none", "max_retries": 0}
        config = {
            "model_list": [{"model_name": "tiny", "litellm_params": params}],
            "general_settings": {"master_key": KEY},
        }
        (folder / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
        port = free_port()
        command = [
            str(Path(sys.executable).with_name("litellm")),
            "--config",
            "config.yaml",
            "--port",
            str(port),
        ]
        with serving([*command, "--host", "127.0.0.1"], port, folder) as base:
            yield base, "tiny"


@contextlib.contextmanager
def llama_cpp(folder: Path) -> Iterator[tuple[str, str]]:
    make_gguf(folder / "tiny.gguf")
    port = free_port()
    command = [sys.executable, "-m", "llama_cpp.server", "--model", "tiny.gguf", "--model_alias", "tiny"]
    with serving([*command, "--port", str(port), "--n_ctx", "512"], port, folder) as base:
        yield base, "tiny"


@contextlib.contextmanager
def transformers(folder: Path) -> Iterator[tuple[str, str]]:
    make_transformers_model(folder / "tiny")
    port = free_port()
    command = [str(Path(sys.executable).with_name("transformers")), "serve", "--host", "127.0.0.1"]
    with serving([*command, "--device", "cpu", "--port", str(port)], port, folder) as base:
        yield base, str(folder / "tiny")


def make_gguf(path: Path) -> None:
    """Write a Llama of one layer with random weights, and bytes as its tokens."""
    import gguf
    import numpy as np

    width, hidden, context = 32, 64, 512
    random = np.random.default_rng(0)
    tokens = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % byte for byte in range(256))]
    kinds = [gguf.TokenType.UNKNOWN, *[gguf.TokenType.CONTROL] * 2, *[gguf.TokenType.BYTE] * 256]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // 2)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
    shapes = {
        "token_embd": (len(tokens), width),
        "output": (len(tokens), width),
        **{f"blk.0.attn_{part}": (width, width) for part in ("q", "k", "v", "output")},
        "blk.0.ffn_gate": (hidden, width),
        "blk.0.ffn_up": (hidden, width),
        "blk.0.ffn_down": (width, hidden),
    }
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", random.normal(0, 0.3, shape).astype(np.float32))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(width, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_transformers_model(folder: Path) -> None:
    """Write a Llama of one layer with random weights, and bytes as its tokens."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: place for place, token in enumerate(["<unk>", "<s>", "</s>", *letters])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=2048, bos_token_id=1, eos_token_id=2, pad_token_id=2,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)


# -- what is asked


def connect(base: str, name: str, form: str, *, stream: bool) -> OpenAIModel | AnthropicModel:
    how: dict[str, Any] = {"api_key": KEY, "timeout": 120.0, "retry": Retry(0), "stream": stream}
    if form == "messages":
        return AnthropicModel(
            name, base_url=base.removesuffix("/v1"), options=AnthropicOptions(max_tokens=64), **how
        )
    return OpenAIModel(name, base_url=base, api="responses" if form == "responses" else "chat", **how)


async def heard(model: OpenAIModel | AnthropicModel) -> str:
    """Ask for a chat, and say of the answer what can be said of any."""
    pieces: list[str] = []
    session = Session(
        listener=lambda event: pieces.append(event.text) if isinstance(event, TextStreamed) else None
    )
    with session.acting_as("agent"):
        answer = await model.complete(HELLO, sampling=SHORT)
    assert answer.text or answer.finish_reason == "length", answer
    assert not pieces or "".join(pieces) == answer.text, (pieces, answer.text)
    counted = "usage unknown" if answer.usage.unreported else f"{answer.usage.tokens} tokens"
    return (
        f"{len(answer.text)} characters, {counted}, {len(pieces)} pieces told, ends by {answer.finish_reason}"
    )


async def known(model: OpenAIModel | AnthropicModel) -> str:
    """The same of an answer that is known."""
    said = await heard(model)
    assert (await model.complete(HELLO)).text == SAID
    return said


async def offered(model: OpenAIModel | AnthropicModel) -> str:
    """Offer a tool to a model that may make nothing of it, or a server that may not take it."""
    answer = await model.complete(HELLO, tools=[LOOK], sampling=SHORT)
    return f"answered with {len(answer.tool_calls)} calls"


async def called(model: OpenAIModel | AnthropicModel) -> str:
    """Have a tool called, and go on with its result."""
    answer = await model.complete(HELLO, tools=[LOOK])
    (call,) = answer.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("look", CALL), answer
    told = [*HELLO, answer.message(), Message("tool", "a mug", tool_call_id=call.id)]
    after: Completion = await model.complete(told, tools=[LOOK])
    assert after.text == SAID, after
    return f"call and result, {answer.usage.tokens} tokens"


async def overloaded(model: OpenAIModel | AnthropicModel) -> str:
    """Have the server behind the server refuse."""
    try:
        answer = await model.complete([Message("user", "fail")])
    except ModelError as error:
        if "slow down" in str(error):
            return f"{type(error).__name__}, status {getattr(error, 'status', None)}"
        raise
    raise AssertionError(answer)


async def misnamed(model: OpenAIModel | AnthropicModel) -> str:
    """Ask for a model that is not there."""
    try:
        answer = await model.named("no-such-model").complete(HELLO, sampling=SHORT)
    except ModelError as error:
        return f"{type(error).__name__}, status {getattr(error, 'status', None)}"
    return f"answered all the same, {len(answer.text)} characters"


async def too_long(model: OpenAIModel | AnthropicModel) -> str:
    """Send more than the model can read."""
    try:
        answer = await model.complete([Message("user", "x" * 4_000)], sampling=SHORT)
    except ModelError as error:
        return f"{type(error).__name__}, status {getattr(error, 'status', None)}"
    return f"answered all the same, {len(answer.text)} characters"


Case = Callable[[OpenAIModel | AnthropicModel], Awaitable[str]]
SERVERS: dict[str, tuple[Callable[[Path], Any], tuple[str, ...], dict[str, Case]]] = {
    "litellm": (
        litellm,
        ("chat", "responses", "messages"),
        {"chat": known, "tools": called, "error": overloaded, "no such model": misnamed},
    ),
    "llama-cpp": (
        llama_cpp,
        ("chat",),
        {"chat": heard, "tools": offered, "too long": too_long, "no such model": misnamed},
    ),
    "transformers": (
        transformers,
        ("chat", "responses"),
        {"chat": heard, "tools": offered, "no such model": misnamed},
    ),
}


def example(base: str, name: str) -> str:
    """Run the page's client over LiteLLM against the server."""
    page = Path(__file__).parents[2] / "docs" / "models.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = (each for each in blocks if "import litellm" in each)
    names: dict[str, Any] = {}
    exec(block, names)
    os.environ.update(OPENAI_API_BASE=base, OPENAI_API_KEY=KEY)

    async def ask() -> str:
        model = names["LiteLLMModel"](f"openai/{name}")
        return f"{await known(model)}; {await called(model)}"

    return anyio.run(ask)


def main(server: str, folder: Path) -> int:
    logging.basicConfig(level=logging.ERROR)
    start, forms, cases = SERVERS[server]
    failed = 0

    def tell(case: str, run: Callable[[], str]) -> None:
        nonlocal failed
        try:
            said, mark = run(), "ok"
        except Exception as error:  # noqa: BLE001 - told, and counted
            said, mark = f"{type(error).__name__}: {error}"[:300], "FAILED"
            failed += 1
        print(f"{server:13} {case:36} {mark:7} {said}", flush=True)

    async def one(base: str, name: str, form: str, case: Case, *, stream: bool) -> str:
        async with connect(base, name, form, stream=stream) as model:
            return await case(model)

    with start(folder) as (base, name):
        for form in forms:
            for stream in (False, True):
                for label, case in cases.items():
                    how = f"{form}, {'streamed' if stream else 'whole'}: {label}"
                    tell(
                        how,
                        lambda f=form, c=case, s=stream: anyio.run(lambda: one(base, name, f, c, stream=s)),
                    )
        if importlib.util.find_spec("litellm"):
            tell("the example of the page", lambda: example(base, name))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]).resolve()))
