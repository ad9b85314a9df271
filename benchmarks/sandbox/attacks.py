"""Attacks in Python, each with what must become of it."""
# ruff: noqa: E501  the code of the attacks

from dataclasses import replace

from benchmarks.sandbox.attack import MANY, ROOMY, SMALL, Attack

TOOLS = """
def try_all(actions):
    done = {}
    for name, action in actions.items():
        try:
            done[name] = repr(action())[:80]
        except BaseException as error:
            pass
    return done
"""

BUFFERS = """
import fcntl, os, socket
held = 0
def pairs(make):
    global held
    kept = []
    try:
        while True: kept.extend(make())
    except OSError: pass
    for end in kept:
        try:
            if make is os.pipe: fcntl.fcntl(end, 1031, 1 << 20)
            else: end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10**8)
        except OSError: pass
        number = end if make is os.pipe else end.fileno()
        os.set_blocking(number, False)
        try:
            while True: held += os.write(number, bytes(65536))
        except OSError: pass
"""

FILLING = """
import time
done = globals().get("done", lambda file: file.close())
for n in range(40):
    name = str(n)
    file = open(name, "wb", 0); file.write(b"x" * 100_000); done(file)
    time.sleep(0.002)
time.sleep(3)
result = "wrote twice as much as it may"
"""

ATTACKS = [
    Attack("endless", "while True: pass", ("seconds",)),
    Attack(
        "endless_ignoring_signals",
        "import signal\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
        "while True: pass",
        ("seconds",),
    ),
    Attack(
        "endless_computing",
        "while True: pass",
        ("cpu_seconds",),
        limits=replace(ROOMY, cpu_seconds=1),
    ),
    Attack("endless_bare_except", "while True:\n  try:\n    while True: pass\n  except: pass", ("seconds",)),
    Attack("sleeping", "import time\ntime.sleep(1000)", ("seconds",)),
    Attack("fork_bomb", "import os\nwhile True: os.fork()", ("processes",)),
    Attack(
        "fork_bomb_stubborn", "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass", ("seconds",)
    ),
    Attack(
        "fork_bomb_of_eight",
        "import os\nwhile True: os.fork()",
        ("processes",),
        limits=MANY,
        namespaces_only=True,
    ),
    Attack(
        "fork_bomb_of_eight_stubborn",
        "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
        ("seconds",),
        limits=MANY,
        namespaces_only=True,
    ),
    Attack(
        "thread_bomb",
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(100,), daemon=True).start()",
        ("processes", "memory_mb"),
    ),
    Attack("memory_at_once", "x = bytearray(10**10)", ("memory_mb",)),
    Attack("memory_bit_by_bit", "x = []\nwhile True: x.append(bytearray(10**6))", ("memory_mb",)),
    Attack(
        "memory_shared",
        "import mmap\nx = []\nwhile True: x.append(mmap.mmap(-1, 10**7))",
        ("memory_mb", "error"),
    ),
    Attack(
        "memory_stubborn",
        "x = []\nwhile True:\n  try: x.append(bytearray(10**6))\n  except MemoryError: pass",
        ("seconds",),
    ),
    Attack("output_print", "while True: print('x' * 10_000)", ("output_bytes",)),
    Attack(
        "output_gigabyte", "import os\nfor _ in range(1000): os.write(1, b'x' * 10**6)", ("output_bytes",)
    ),
    Attack("output_stderr", "import os\nwhile True: os.write(2, b'x' * 10**5)", ("output_bytes",)),
    Attack("output_value", "result = 'x' * 10**7", ("output_bytes",)),
    Attack("output_value_endless", "import os\nwhile True: os.write(3, b'x' * 10**5)", ("output_bytes",)),
    Attack("file_huge", "with open('f', 'wb') as f:\n  while True: f.write(b'x' * 10**6)", ("file_bytes",)),
    Attack("file_sparse", "with open('f', 'wb') as f: f.truncate(10**12)", ("file_bytes",)),
    Attack(
        "files_many",
        "import time\nfor n in range(10**6):\n  with open(str(n), 'wb') as f: f.write(b'x' * 10**5)\n  time.sleep(0.002)",
        ("file_bytes",),
    ),
    Attack("files_empty", "for n in range(10**9): open(str(n), 'w').close()", ("file_bytes", "seconds")),
    Attack(
        "files_deep_down",
        "import os\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')\n" + FILLING,
        ("file_bytes",),
    ),
    Attack(
        "files_deeper_than_a_path",
        "import os\nfor _ in range(40): os.mkdir('d' * 200); os.chdir('d' * 200)\n" + FILLING,
        ("file_bytes",),
    ),
    Attack(
        "files_in_folders_that_move",
        """
import os, time
above, end, n = [], time.monotonic() + 3, 0
for _ in range(12): above.append(os.open(".", os.O_RDONLY)); os.mkdir("a"); os.chdir("a")
while time.monotonic() < end:
    if n % 50 == 0 and n < 2000:
        with open(str(n), "wb") as file: file.write(b"x" * 100_000)
    for folder in above: os.rename("a", "b", src_dir_fd=folder, dst_dir_fd=folder)
    for folder in above: os.rename("b", "a", src_dir_fd=folder, dst_dir_fd=folder)
    n += 1
result = "wrote twice as much as it may"
""",
        ("file_bytes",),
    ),
    Attack("files_unlisted", "import os\nos.mkdir('d', 0o300); os.chdir('d')\n" + FILLING, ("file_bytes",)),
    Attack(
        "files_deleted",
        "import os\nkept = []\nname = '0'\ndef done(file): kept.append(file); os.remove(name)\n" + FILLING,
        ("file_bytes",),
    ),
    Attack(
        "reading",
        TOOLS
        + """
import os
result = try_all({
    "shadow": lambda: open("/etc/shadow").read(), "passwd": lambda: open("/etc/passwd").read(),
    "home": lambda: [n for n in os.listdir(home) if not os.__file__.startswith(f"{home}/{n}/")][0], "witness": lambda: open(witness).read(), "tree": lambda: os.listdir(tree),
    "environ": lambda: open(f"/proc/{host}/environ", "rb").read(), "mem": lambda: open(f"/proc/{host}/mem", "rb"),
    "self": lambda: open("/proc/self/environ").read(), "proc": lambda: os.listdir("/proc"),
    "cwd": lambda: os.readlink(f"/proc/{host}/cwd"), "disk": lambda: open("/dev/vda", "rb"), "sys": lambda: os.listdir("/sys"),
    "dot": lambda: os.listdir("/proc/1/root"), "up": lambda: open("../../../../etc/passwd"),
    "secret": lambda: [v for v in os.environ.values() if "SECRET" in v][0],
})""",
        value={},
    ),
    Attack("environment", "import os\nresult = sorted(os.environ)", value=["HOME", "LANG", "TMPDIR"]),
    Attack(
        "descriptors",
        "import os\nfound = []\nfor fd in range(1024):\n  try: os.fstat(fd); found.append(fd)\n  except OSError: pass\nresult = found",
        value=[0, 1, 2, 3],
    ),
    Attack(
        "sockets",
        TOOLS
        + """
import socket
def tcp():
    s = socket.socket(); s.connect(("127.0.0.1", port)); s.send(b"x")
def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b"x", ("127.0.0.1", port))
def unix():
    s = socket.socket(socket.AF_UNIX); s.connect(unix_path); s.send(b"x")
def abstract():
    s = socket.socket(socket.AF_UNIX); s.connect("\\0" + abstract_name); s.send(b"x")
def ipv6():
    s = socket.socket(socket.AF_INET6); s.connect(("::1", port))
result = try_all({"tcp": tcp, "udp": udp, "unix": unix, "abstract": abstract, "ipv6": ipv6,
    "vsock": lambda: socket.socket(40, socket.SOCK_STREAM), "netlink": lambda: socket.socket(16, socket.SOCK_RAW),
    "raw": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW), "name": lambda: socket.getaddrinfo("localhost", 80)})
result.pop("name", None)""",
        value={},
    ),
    Attack(
        "datagram_pairs",
        TOOLS
        + """
import array, os, socket
def pair(kind):
    return socket.socketpair(socket.AF_UNIX, kind)
def send(address):
    pair(socket.SOCK_DGRAM)[0].sendto(b"x", address)
def passing(kind):
    one, other = pair(kind)
    socket.send_fds(one, [b"x"], [0])
    return socket.recv_fds(other, 9, 9)
result = try_all({
    "path": lambda: send(unix_path + ".datagrams"), "abstract": lambda: send("\\0" + abstract_name + ".datagrams"),
    "passing": lambda: passing(socket.SOCK_DGRAM), "passing_in_a_stream": lambda: passing(socket.SOCK_STREAM),
    "naming": lambda: pair(socket.SOCK_STREAM)[0].bind("\\0" + abstract_name + ".named"),
    "packets": lambda: pair(socket.SOCK_SEQPACKET), "vsock": lambda: socket.socketpair(40, socket.SOCK_STREAM),
})""",
        value={},
    ),
    Attack(
        "stream_pairs",
        "import asyncio, socket\none, other = socket.socketpair()\none.send(b'x')\n"
        "result = [other.recv(9).decode(), asyncio.run(asyncio.sleep(0, 'y'))]",
        value=["x", "y"],
    ),
    Attack(
        "socket_buffers", BUFFERS + "pairs(socket.socketpair)\nresult = held < 20e6", value=True, limits=SMALL
    ),
    Attack("pipe_buffers", BUFFERS + "pairs(os.pipe)\nresult = held < 20e6", value=True, limits=SMALL),
    Attack(
        "writing",
        TOOLS
        + """
import os, sys
result = try_all({
    "witness": lambda: open(witness, "w").write("x"), "remove": lambda: os.remove(witness),
    "chmod": lambda: os.chmod(witness, 0o777), "truncate": lambda: os.truncate(witness, 0),
    "utime": lambda: os.utime(witness, (0, 0)), "rename": lambda: os.rename(witness, "mine"),
    "link": lambda: os.link(witness, "mine"), "beside": lambda: open(tree + "/new", "w"),
    "root": lambda: open("/new", "w"), "etc": lambda: open("/etc/new", "w"), "dev": lambda: open("/dev/shm/new", "w"),
    "library": lambda: open(os.__file__, "a"), "library_new": lambda: open(os.path.dirname(os.__file__) + "/new.py", "w"),
    "mkdir": lambda: os.mkdir(tree + "/d"), "device": lambda: os.mknod("sda", 0o60600, os.makedev(8, 0)),
})""",
        value={},
    ),
    Attack(
        "scratch",
        "open('a', 'w').write('x')\nimport tempfile\nwith tempfile.TemporaryFile() as f: f.write(b'y')\nresult = open('a').read()",
        value="x",
    ),
    Attack("exit_at_once", "import os\nos._exit(0)", ("error",)),
    Attack("exit", "import sys\nsys.exit(3)", ("error",)),
    Attack("abort", "import os\nos.abort()", ("error",)),
    Attack(
        "killing",
        TOOLS
        + """
import os, signal
os.getppid() != 1 or os.kill(1, signal.SIGKILL)
done = try_all({name: (lambda p=pid: os.kill(p, signal.SIGKILL)) for name, pid in {"host": host, "all": -1, "parent": os.getppid()}.items()})
done.pop("all", None)  # all that there is in a process table of one's own
if os.getppid() in (0, 1):
    done.pop("parent", None)
result = done""",
        value={},
    ),
    Attack(
        "killing_its_group",
        "import os, signal\nos.killpg(0, signal.SIGKILL)\nresult = 1",
        ("error", "value"),
        value=1,
    ),
    Attack(
        "owner_of_signals",
        TOOLS
        + """
import fcntl, os
r, w = os.pipe()
result = try_all({"setown": lambda: fcntl.fcntl(r, 8, host), "setsig": lambda: fcntl.fcntl(r, 10, 9)})""",
        value={},
    ),
    Attack(
        "system_calls",
        """
import ctypes, platform
libc = ctypes.CDLL(None, use_errno=True)
def fails(*arguments):
    return libc.syscall(*arguments) == -1
x86 = platform.machine() == "x86_64"
calls = {
    "unshare": (272, 97), "mount": (165, 40), "setns": (308, 268), "ptrace": (101, 117), "bpf": (321, 280),
    "io_uring_setup": (425, 425), "userfaultfd": (323, 282), "keyctl": (250, 219), "pidfd_open": (434, 434),
    "memfd_create": (319, 279), "chroot": (161, 51), "fsopen": (430, 430), "clone3": (435, 435), "shmget": (29, 194),
    "perf_event_open": (298, 241), "reboot": (169, 142), "open_by_handle_at": (304, 265), "execve": (59, 221),
    "outliving its guard": (157, 167), "hiding its files": (157, 167),
}
zeros = [ctypes.c_long(0)] * 6
special = {"unshare": [ctypes.c_long(0x10000000)] + zeros[1:], "outliving its guard": [ctypes.c_long(1)] + zeros[1:],
    "hiding its files": [ctypes.c_long(4)] + zeros[1:]}
result = [name for name, pair in calls.items() if not fails(ctypes.c_long(pair[not x86]), *special.get(name, zeros))]
if not fails(ctypes.c_long(56 if x86 else 220), ctypes.c_long(0x10000000 | 17), *zeros[:5]):
    result.append("clone into a user namespace")
""",
        value=[],
    ),
    Attack(
        "system_calls_of_another_table",
        "import ctypes\nctypes.CDLL(None).syscall(ctypes.c_long(0x40000000 + 39))",
        ("error",),
    ),
    Attack("null_pointer", "import ctypes\nctypes.string_at(0)", ("error",)),
    Attack(
        "programs",
        TOOLS
        + """
import os, subprocess
result = try_all({"exec": lambda: os.execv("/bin/sh", ["sh", "-c", "id"]), "run": lambda: subprocess.run(["/bin/true"]),
    "system": lambda: os.system("id") or os.system("id") == 0 or 1 / 0, "spawn": lambda: os.posix_spawn("/bin/true", ["true"], {})})
result.pop("system", None)""",
        value={},
    ),
    Attack("closing_the_result", "import os\nos.closerange(3, 1000)", ("error",)),
    Attack("forged_value", "import os\nos.write(3, b'{\"value\": 42}')\nos._exit(0)", value=42),
    Attack("forged_value_before", "import os\nos.write(3, b'{\"value\": 42}')\nresult = 1", ("error",)),
    Attack("forged_bytes", "import os\nos.write(3, bytes(range(256)))\nos._exit(0)", ("error",)),
    Attack(
        "forged_depth", "import os\nos.write(3, b'{\"value\": ' + b'[' * 50_000)\nos._exit(0)", ("error",)
    ),
    Attack(
        "forged_number",
        "import os\nos.write(3, b'{\"value\": ' + b'9' * 50_000 + b'}')\nos._exit(0)",
        ("error",),
    ),
    Attack("forged_nan", "import os\nos.write(3, b'{\"value\": NaN}')\nos._exit(0)", ("error",)),
    Attack(
        "forged_surrogate", 'import os\nos.write(3, b\'{"value": "\\\\ud800"}\')\nos._exit(0)', ("error",)
    ),
    Attack("forged_error", "import os\nos.write(3, b'{\"error\": [1, 2]}')\nos._exit(0)", ("error",)),
    Attack(
        "forged_limit",
        'import os\nos.write(3, b\'{"error": {"kind": {}, "line": []}}\')\nos._exit(0)',
        ("error",),
    ),
    Attack(
        "forged_frames_on_stdout", "import os\nos.write(1, b'\\0' * 7 + b'\\7garbage')\nresult = 5", value=5
    ),
    Attack("recursion", "def f(): return f()\nf()", ("error",)),
    Attack(
        "recursion_unlimited",
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(): return f()\nf()",
        ("error", "memory_mb", "seconds"),
    ),
    Attack("value_in_itself", "result = []\nresult.append(result)", ("error",)),
    Attack("value_function", "result = lambda: 1", ("error",)),
    Attack("value_file", "result = open('f', 'w')", ("error",)),
    Attack("value_set", "result = {'a': {1, 2}}", ("error",)),
    Attack("value_nan", "result = [float('nan')]", ("error",)),
    Attack("value_bytes", "result = b'x'", ("error",)),
    Attack("value_key", "result = {1: 2}", ("error",)),
    Attack(
        "exception_that_can_not_be_shown",
        "class E(Exception):\n  def __str__(self): raise E\nraise E",
        ("error",),
    ),
    Attack("exception_huge", "raise ValueError('x' * 10**7)", ("error",)),
    Attack(
        "replaced_builtins",
        "import json, os, sys\nsys.stdout = None\njson.dumps = None\nos.write = None\nos._exit = None\nresult = 6",
        value=6,
    ),
    Attack(
        "grandchildren_left_behind",
        """
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
        os._exit(0)
result = 'left'""",
        value="left",
        limits=MANY,
        namespaces_only=True,
    ),
    Attack(
        "grandchildren_at_the_time_limit",
        "import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0: time.sleep(600)\ntime.sleep(600)",
        ("seconds",),
        limits=MANY,
        namespaces_only=True,
    ),
    Attack("standard_input", "import sys\nresult = sys.stdin.read()", value=""),
]
