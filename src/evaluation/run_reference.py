# Runs a definition's Python reference on the CPU, in a process of its own. Standard input: one JSON object (see
# python_reference.cpp). Tensors come and go through shared memory whose descriptors it names; outputs as float32.
import json
import mmap
import sys

EXIT_NO_TORCH = 77


def fail(message, code=1):
    print(message, file=sys.stderr)
    sys.exit(code)


def load_torch():
    try:
        import torch
    except Exception as error:
        fail(f"PyTorch cannot be loaded by {sys.executable} ({error})", EXIT_NO_TORCH)
    return torch


def read_inputs(torch, request):
    memory = mmap.mmap(request["input_fd"], request["input_bytes"], access=mmap.ACCESS_COPY)
    for spec in request["inputs"]:
        dtype = getattr(torch, spec["dtype"], None)
        if dtype is None:
            fail(f"this PyTorch has no type {spec['dtype']}, which input {spec['name']} has")
        count = 1
        for extent in spec["shape"]:
            count *= extent
        if count == 0:
            yield torch.empty(spec["shape"], dtype=dtype)
            continue
        tensor = torch.frombuffer(memory, dtype=dtype, count=count, offset=spec["offset"])
        yield tensor[0].item() if spec["scalar"] else tensor.reshape(spec["shape"])


def in_order(results, outputs):
    if isinstance(results, dict):
        missing = [spec["name"] for spec in outputs if spec["name"] not in results]
        if missing:
            fail(f"run returned no {', '.join(missing)}")
        return [results[spec["name"]] for spec in outputs]
    if not isinstance(results, (tuple, list)):
        results = [results]
    if len(results) != len(outputs):
        fail(f"run returned {len(results)} values, but the definition has {len(outputs)} outputs")
    return results


def write_outputs(torch, request, memory, results):
    for spec, value in zip(request["outputs"], in_order(results, request["outputs"])):
        value = torch.as_tensor(value)
        if list(value.shape) != spec["shape"]:
            fail(f"run returned {spec['name']} of shape {list(value.shape)}, but it is {spec['shape']}")
        if value.numel() > 0:
            place = torch.frombuffer(memory, dtype=torch.float32, count=value.numel(), offset=spec["offset"])
            place.copy_(value.detach().cpu().to(torch.float32).reshape(-1))


def main():
    request = json.load(sys.stdin)
    # Whoever waits knows by the token that the results are there, since the reference may end the process itself.
    token = bytes.fromhex(request.pop("token"))
    torch = load_torch()
    torch.set_num_threads(request["threads"])
    torch.manual_seed(0)
    space = {"__name__": "reference"}
    exec(compile(request["reference"], "reference", "exec"), space)
    if not callable(space.get("run")):
        fail("the reference has no function `run`")
    with torch.no_grad():
        results = space["run"](*read_inputs(torch, request))
    memory = mmap.mmap(request["output_fd"], request["output_bytes"])
    write_outputs(torch, request, memory, results)
    memory[-len(token):] = token


main()
