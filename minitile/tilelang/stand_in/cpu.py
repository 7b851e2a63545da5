"""torch's CPU in place of its GPU, for scripts that ask for "cuda" where there is none: `minitile tilelang --cpu FILE`.

Factories and `.cuda()` give tensors on the CPU, which kernels take to the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any
from unittest import mock

from minitile.tilelang.mode import MODE


@contextmanager
def on_cpu() -> Iterator[None]:
    """While this is active. Needs torch."""
    torch: Any = import_module("torch")
    TorchFunctionMode: Any = import_module("torch.overrides").TorchFunctionMode

    class Cpu(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = dict(kwargs or {})
            if _gpu(named.get("device")):
                named["device"] = "cpu"
            if getattr(function, "__name__", "") in ("to", "cuda"):
                args = tuple("cpu" if _gpu(a) else a for a in args)
            if function is torch.Tensor.cuda:
                return args[0]
            return function(*args, **named)

    def _gpu(device: Any) -> bool:
        return device is not None and (
            isinstance(device, int) or str(device).startswith("cuda") or getattr(device, "type", "") == "cuda"
        )

    class Properties:
        name, major, minor, multi_processor_count, total_memory = "simulator", 9, 0, 132, 80 << 30

    class Event:
        def __init__(self, **_: Any) -> None: ...

        def record(self, *_: Any) -> None: ...

        def synchronize(self) -> None: ...

        def elapsed_time(self, _: Any) -> float:
            return float("nan")

    class Stream:
        cuda_stream = 0

        def __init__(self, *_: Any, **__: Any) -> None: ...

        def __enter__(self) -> Stream:
            return self

        def __exit__(self, *_: object) -> None: ...

        wait_stream = wait_event = record_event = synchronize = __exit__

    class Generator(torch.Generator):  # type: ignore[misc]
        def __new__(cls, device: Any = None) -> Any:
            return super().__new__(cls, "cpu")

    def gives(value: Any) -> Callable[..., Any]:  # a function of its own each, as torch's compiler wants
        return lambda *_, **__: value

    replaced = {
        "init": gives(None),
        "is_available": gives(True),
        "get_rng_state": gives(None),
        "set_rng_state": gives(None),
        "synchronize": gives(None),
        "empty_cache": gives(None),
        "set_device": gives(None),
        "current_device": gives(0),
        "device_count": gives(1),
        "get_device_capability": gives((9, 0)),
        "get_device_name": gives("simulator"),
        "get_device_properties": gives(Properties()),
        "Event": Event,
        "Stream": Stream,
        "stream": Stream,
        "default_stream": Stream,
        "current_stream": Stream,
    }
    with ExitStack() as stack:
        for name, value in replaced.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value))
        stack.enter_context(mock.patch.object(torch.nn.Module, "cuda", lambda self, *_: self))
        stack.enter_context(mock.patch.object(torch, "Generator", Generator))
        stack.enter_context(Cpu())
        stack.enter_context(mock.patch.object(MODE, "simulated", True))
        yield
