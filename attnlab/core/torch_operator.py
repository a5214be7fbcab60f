"""One PyTorch operator stands for a call whose tensors have no values: torch.compile, torch.export, meta, fake.

The cores look at masks, count tiles and write into buffers, which no compiler can trace. So it sees one operator,
``attnlab::attention``: told the shapes of the results, it takes any lengths, and at run time makes the plain call.
The gradient is one more operator, tiled attention's for every algorithm: it needs out and lse, and no N×M matrix.
"""

import functools
import importlib
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from attnlab.core.arguments import check_arrays, check_shapes, window_sides

import torch
from torch import Tensor as Array
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor

OPTIONAL = "mask", "bias", "query_segments", "key_segments", "block_mask"
ARRAYS = dict.fromkeys(("query", "key", "value"), "Tensor") | dict.fromkeys(OPTIONAL, "Tensor?")
RESULTS = {"out": "Tensor", "lse": "Tensor", "dout": "Tensor", "dlse": "Tensor?"}
OPTIONS = {
    "function": "str", "gradient": "str", "causal": "bool", "left": "SymInt?", "right": "SymInt?", "offset": "SymInt?",
    "scale": "float?", "dropout": "float", "seed": "SymInt?", "block_q": "SymInt?", "block_k": "SymInt?",
    "query_chunk_size": "SymInt?", "key_chunk_size": "SymInt?",
}  # fmt: skip
CALL = ARRAYS | OPTIONS


def constant(function: Callable) -> Callable:
    """Decorator: torch.compile calls the function while it traces, and takes the result for a constant.

    ``torch.compiler.assume_constant_result`` sets this mark too, but imports the compiler, which takes a second.
    """
    function._dynamo_marked_constant = True
    return function


@constant
def load(home: str) -> str:
    """Import a module and keep it as an attribute of this one, where torch.compile can find it. Returns that name."""
    name = home.replace(".", "_")
    globals()[name] = importlib.import_module(home)
    return name


def run_outside_graph(name: str, function: Callable, *args: Any, **kwargs: Any) -> Any:
    """Run one call outside torch.compile's graph, which breaks there; with fullgraph=True that's an error.

    Tensors without values are refused.
    """
    if not torch.compiler.is_compiling():
        if any(isinstance(x, Array) and has_no_values(x) for x in (*args, *kwargs.values())):
            raise NotImplementedError(f"{name} looks at numbers, and a meta or fake tensor has none")
        return function(*args, **kwargs)
    if break_takes_message():
        torch._dynamo.graph_break(msg=f"attnlab: {name} cannot be traced; compile without fullgraph=True, or around it")
    else:
        torch._dynamo.graph_break()
    return torch.compiler.disable(function)(*args, **kwargs)


@constant
def break_takes_message() -> bool:
    """Whether graph_break takes a message. In PyTorch 2.6 it doesn't."""
    return "msg" in inspect.signature(torch._dynamo.graph_break).parameters


def no_autocast(core: Callable) -> Callable:
    """Decorator of every core in PyTorch: autocast is off, or products would be bfloat16 under a float32 label."""

    @functools.wraps(core)
    def wrapped(rules: Any, sizes: Any, x: Any, *rest: Any) -> tuple[Array, ...]:
        with without_autocast(x.query):
            return core(rules, sizes, x, *rest)

    return wrapped


def without_autocast(x: Array) -> AbstractContextManager:
    """A context in which autocast is off for x's device; there is nothing to do where it has none, as meta."""
    device = x.device.type
    on = can_autocast(device) and torch.is_autocast_enabled(device)
    return torch.autocast(device, enabled=False) if on else nullcontext()


def autocast_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Cast query, key and value as autocast would, float64 excepted; refuse nested, sparse and distributed tensors."""
    for name in ("query", "key", "value"):
        if getattr(arguments[name], "is_nested", False):
            raise TypeError(f"{name} is a nested tensor; attnlab takes plain ones: pad, and hide the padding by a mask")
        if getattr(arguments[name], "layout", torch.strided) != torch.strided:
            raise TypeError(f"{name} is of layout {arguments[name].layout}; attnlab takes dense ones: to_dense()")
        if type(arguments[name]).__name__ == "DTensor":
            raise TypeError(f"{name} is a DTensor; attnlab takes local ones: call it in local_map, or on to_local()")
    names = "query", "key", "value"
    return arguments if "dout" in arguments else arguments | dict(zip(names, in_autocast(*map(arguments.get, names))))


def in_autocast(*arrays: Any) -> tuple[Any, ...]:
    """Cast arrays as autocast would; where it is off they stay as they are."""
    device = arrays[0].device.type
    if not (can_autocast(device) and torch.is_autocast_enabled(device)):
        return arrays
    dtype = torch.get_autocast_dtype(device)
    return tuple(cast(x, dtype) for x in arrays)


@constant
def can_autocast(device: str) -> bool:
    """Whether a kind of device has autocast. PyTorch 2.6 can't trace the question, so the answer is a constant."""
    return torch.amp.is_autocast_available(device)


def cast(x: Any, dtype: torch.dtype) -> Any:
    """Cast x as autocast would. Anything but a floating-point tensor is left for the checks to refuse."""
    single = isinstance(x, Array) and x.dtype in (torch.float16, torch.bfloat16, torch.float32)
    return x.to(dtype) if single else x


def has_no_values(x: Array) -> bool:
    """Whether x is a meta or fake tensor, or is being traced by torch.compile.

    Under torch.func's transforms the answer is no: they don't go through an operator, so the compiler breaks the graph.
    """
    compiling = torch.compiler.is_compiling() and not torch._C._are_functorch_transforms_active()
    return compiling or is_empty_shell(x)


def is_empty_shell(x: Array) -> bool:
    """Whether x is a meta or fake tensor."""
    return x.is_meta or isinstance(x, FakeTensor)


def draw_seed() -> int:
    """A seed from PyTorch's default generator; 0 among fake tensors, where no number is known and none is needed."""
    try:
        return int(torch.randint(2**32, (), device="cpu"))
    except DataDependentOutputException:
        return 0


def call_operator(function: str, gradient: str, arguments: dict[str, Any]) -> Any:
    """Call the operator in place of ``function``, an attention with that ``gradient``, or a gradient itself."""
    check_shapes(*(tuple(arguments[name].shape) for name in ("query", "key", "value")))
    left, right = window_sides(arguments["window"])
    segments, block_mask = arguments["segments"], arguments.get("block_mask")
    pair = segments if isinstance(segments, tuple | list) else (segments, segments)
    given = arguments | {"function": function, "gradient": gradient, "left": left, "right": right}
    given |= {"query_segments": pair[0], "key_segments": pair[-1]}
    given["block_mask"] = None if block_mask is None else torch.as_tensor(block_mask, device="cpu")
    if "dout" in arguments:
        grads = attention_backward(*(given.get(name) for name in RESULTS | CALL))
        return grads if given["bias"] is not None else grads[:3]
    out, lse = attention(*(given.get(name) for name in CALL))
    return (out, lse) if arguments["return_lse"] else out


def call_eagerly(
    function: str, left: int | None, right: int | None, query_segments: Array | None, key_segments: Array | None,
    **arguments: Any,
) -> Any:  # fmt: skip
    """Make the call that the operator stands for, with the arguments that the function has."""
    home, _, name = function.rpartition(".")
    function = getattr(importlib.import_module(home), name)
    segments = None if query_segments is None else (query_segments, key_segments)
    arguments |= {"window": (left, right), "segments": segments}
    names = inspect.signature(function).parameters
    return function.checked(**{name: x for name, x in arguments.items() if name in names})


def run(*arguments: Any) -> tuple[Array, Array]:
    """Run the call on real tensors: (out, lse)."""
    out, lse = call_eagerly(**dict(zip(CALL, arguments)), return_lse=True)
    return out.contiguous(), lse.contiguous()


def run_backward(*arguments: Any) -> tuple[Array, ...]:
    """dq, dk, dv and dbias of real tensors; dbias is empty where there is no bias."""
    given = dict(zip(RESULTS | CALL, arguments))
    grads = [grad.contiguous() for grad in call_eagerly(**given)]
    return tuple(grads) if given["bias"] is not None else (*grads, grads[0].new_empty(0))


def schema(parameters: dict[str, str], results: int) -> str:
    """The signature of an operator, as PyTorch writes it."""
    typed = ", ".join(f"{kind} {name}" for name, kind in parameters.items())
    return f"({typed}) -> ({', '.join(['Tensor'] * results)})"


attention = torch.library.custom_op("attnlab::attention", run, mutates_args=(), schema=schema(CALL, 2))
attention_backward = torch.library.custom_op(
    "attnlab::attention_backward", run_backward, mutates_args=(), schema=schema(RESULTS | CALL, 4)
)


@attention.register_fake
def fake_results(query: Array, key: Array, value: Array, *rest: Any) -> tuple[Array, Array]:
    """out and lse without values."""
    check_arrays("torch", query=query, key=key, value=value)
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    return query.new_empty((*query.shape[:-1], value.shape[-1])), query.new_empty(query.shape[:-1], dtype=dtype)


@attention_backward.register_fake
def fake_gradients(*arguments: Any) -> tuple[Array, ...]:
    """dq, dk, dv and dbias without values."""
    given = dict(zip(RESULTS | CALL, arguments))
    inputs = [given[name] for name in ("query", "key", "value", "bias")]
    return tuple(inputs[0].new_empty(0) if x is None else x.new_empty(x.shape) for x in inputs)


def save_for_gradient(ctx: Any, inputs: tuple, output: tuple[Array, Array]) -> None:
    """Save what the gradient needs: the arrays, the results and the options."""
    ctx.options = inputs[len(ARRAYS) :]
    ctx.save_for_backward(*inputs[: len(ARRAYS)], *output)


def differentiate(ctx: Any, dout: Array, dlse: Array) -> tuple[Array | None, ...]:
    """The gradients in the places of the arguments."""
    *arrays, out, lse = ctx.saved_tensors
    given = dict(zip(CALL, (*arrays, *ctx.options)))
    given["function"] = given["gradient"]
    grads = attention_backward(out, lse, dout, dlse, *given.values())
    found = dict(zip(("query", "key", "value", "bias"), grads))
    return tuple(None if given[name] is None else found.get(name) for name in CALL)


attention.register_autograd(differentiate, setup_context=save_for_gradient)
