# Compiles a Triton candidate to PTX and records what its `run` does, without a GPU and without data. Standard input: one
# JSON object (lowering.cpp writes it); the answer goes into the shared memory whose descriptor it names. The candidate is
# foreign code in the same process: nothing in the answer is trusted, record.cpp checks all of it.
import ast
import inspect
import json
import linecache
import mmap
import struct
import sys
import traceback
import types

FILE = "kernel.py"


class Refused(Exception):
    """The candidate does what the rules forbid. Arguments: rule, message, line."""


def candidate_line(error):
    """The innermost line of the candidate that an exception passed through."""
    line = 0
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == FILE:
            line = frame.lineno
    return line


def write_answer(request, answer):
    text = json.dumps(answer).encode()
    memory = mmap.mmap(request["output_fd"], request["output_bytes"])
    if len(text) + 8 > len(memory):
        text = json.dumps({"status": "failed", "rule": "triton.too-big",
                           "message": f"the lowered kernels take {len(text)} bytes, more than {len(memory)}"}).encode()
    memory[8:8 + len(text)] = text
    memory[:8] = struct.pack("<Q", len(text))


# Rules that need no running


def check_rules(tree, allowed):
    """The candidate's own names: what it imports, and that it has a kernel and a `run`."""
    kernels, run = [], None
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or "."]
            for name in names:
                if not any(name == one or name.startswith(one + ".") for one in allowed):
                    raise Refused("triton.import", f"import {name}: a candidate may import {', '.join(allowed)}",
                                  node.lineno)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            if node.name == "run":
                run = node
            if any(decorator_name(one) in ("jit", "triton.jit") for one in node.decorator_list):
                kernels.append(node.name)
    if not kernels:
        raise Refused("triton.no-kernel", "there is no function with @triton.jit", 0)
    if run is None:
        raise Refused("triton.no-run", "there is no function `run` that takes the inputs and then the outputs", 0)
    return run


def decorator_name(node):
    if isinstance(node, ast.Call):
        node = node.func
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


# Triton with a driver that records


class Lowering:
    def __init__(self, triton, torch_module, request):
        self.triton, self.torch, self.target = triton, torch_module, request["target"]
        self.recorder = torch_module.RECORDER
        self.kernels, self.by_text, self.notes = [], {}, []
        from triton.backends.compiler import GPUTarget
        self.gpu = GPUTarget("cuda", self.target["arch"], 32)
        self.install_driver()
        self.install_compiler()
        self.install_autotuner()

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    def install_driver(self):
        target, gpu, torch = self.target, self.gpu, sys.modules["torch"]

        class Utils:
            def get_device_properties(self, device=0):
                return {"max_shared_mem": target["shared_bytes"], "multiprocessor_count": target["sm_count"],
                        "max_num_regs": 65536, "warpSize": 32, "sm_clock_rate": 1980000, "mem_clock_rate": 2619000,
                        "mem_bus_width": 6144}

            def __getattr__(self, name):
                raise self_torch.NotHere(f"triton's driver function {name} is not provided")

        self_torch = self.torch

        class Driver:
            utils = Utils()

            def get_current_device(self):
                return 0

            def set_current_device(self, device):
                pass

            def get_current_stream(self, device=None):
                return 0

            def get_current_target(self):
                return gpu

            def get_device_capability(self, device=0):
                return target["arch"] // 10, target["arch"] % 10

            def get_active_torch_device(self):
                return torch.device("cuda", 0)

            def get_device_interface(self):
                return torch.cuda

            def is_active(self):
                return True

            def get_benchmarker(self):
                raise self_torch.NotHere("timing kernels while compiling: there is no GPU to time them on")

        self.triton.runtime.driver.set_active(Driver())

    def install_compiler(self):
        import triton.compiler
        import triton.compiler.compiler as compiler
        # Of every version: JITFunction.create_binder takes it from here.
        triton.compiler.compile = compiler.compile = self.compile

    def compile(self, src, target=None, options=None, **_):
        from triton._C.libtriton import ir
        from triton.compiler.compiler import make_backend
        backend = make_backend(target or self.gpu)
        options = dict(options or {}, ptx_version=self.target["ptx_version"])
        options = backend.parse_options(dict(options, **src.parse_options()))
        stages, metadata = {}, {"target": self.gpu, **options.__dict__}
        if "language" in inspect.signature(backend.add_stages).parameters:
            backend.add_stages(stages, options, src.language)
        else:
            backend.add_stages(stages, options)
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        arguments = (options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
        if "target" in inspect.signature(src.make_ir).parameters:
            arguments = (self.gpu, *arguments)
        module = src.make_ir(*arguments)
        for name, stage in stages.items():
            if name == "cubin":  # made outside, from the PTX that is checked
                break
            module = stage(module, metadata)
        return Compiled(self, src, metadata, module)

    def install_autotuner(self):
        from triton.runtime import autotuner
        lowering = self

        def run(tuner, *arguments, **named):
            tuner.nargs = dict(zip(tuner.arg_names, arguments))
            configs = tuner.prune_configs(named) if len(tuner.configs) > 1 else tuner.configs
            if not configs:
                raise ValueError("autotune: no configuration is left after pruning")
            failures = []
            for config in configs:
                mark = len(lowering.recorder.steps), len(lowering.recorder.buffers)
                try:
                    if config.pre_hook is not None:
                        config.pre_hook({**tuner.nargs, **named, **config.all_kwargs()})
                    result = tuner.fn.run(*arguments, **named, **config.all_kwargs())
                except (lowering.errors.OutOfResources, lowering.errors.PTXASError,
                        lowering.compile_time_failure) as error:
                    failures.append(f"{config}: {error}")
                    del lowering.recorder.steps[mark[0]:], lowering.recorder.buffers[mark[1]:]
                    continue
                if len(tuner.configs) > 1:
                    lowering.note(f"autotune of {tuner.base_fn.__name__}: nothing is timed here; of "
                                  f"{len(tuner.configs)} configurations the first that compiles was taken: {config}")
                tuner.best_config, tuner.nargs = config, None
                return result
            raise RuntimeError("autotune: no configuration compiles: " + "; ".join(failures)[:2000])

        from triton.compiler.errors import CompileTimeAssertionFailure
        from triton.runtime import errors
        self.errors, self.compile_time_failure = errors, CompileTimeAssertionFailure
        autotuner.Autotuner.run = run

    def kernel_index(self, ptx, metadata):
        name = metadata["name"]
        key = (ptx, name)
        if key not in self.by_text:
            self.by_text[key] = len(self.kernels)
            self.kernels.append({
                "name": name, "ptx": ptx, "warps": int(metadata["num_warps"]), "shared": int(metadata["shared"]),
                "cluster": int(metadata.get("num_ctas", 1)), "fmad": bool(metadata.get("enable_fp_fusion", True)),
                "stages": int(metadata.get("num_stages", 0)),
            })
        return self.by_text[key]


class Compiled:
    """What JITFunction gets back from the compiler, and runs."""

    function, packed_metadata = None, ()

    def __init__(self, lowering, src, metadata, ptx):
        self.lowering, self.src, self.raw, self.asm = lowering, src, metadata, {"ptx": ptx}
        self.metadata = types.SimpleNamespace(**metadata)
        self.name = metadata["name"]
        self.n_regs, self.n_spills = 0, 0  # known only after ptxas
        limit = lowering.target["shared_bytes"]
        if metadata["shared"] > limit:
            raise lowering.triton.runtime.errors.OutOfResources(metadata["shared"], limit, "shared memory")
        if metadata["num_warps"] * 32 > 1024:
            raise lowering.triton.runtime.errors.OutOfResources(metadata["num_warps"] * 32, 1024, "threads")

    def _init_handles(self):
        pass

    def launch_metadata(self, grid, stream, *arguments):
        return None

    def __getitem__(self, grid):
        def launch(*arguments, stream=None):
            padded = list(grid) + [1] * (3 - len(grid))
            self.run(*padded, 0, None, (), None, None, None, *arguments)

        return launch

    def run(self, x, y, z, stream, function, packed, launch_metadata, enter_hook, exit_hook, *values):
        lowering = self.lowering
        grid = [int(x), int(y), int(z)]
        if any(extent < 0 for extent in grid):
            raise ValueError(f"grid {tuple(grid)}")
        if 0 in grid:
            return
        # Only what is launched is part of the candidate: autotune compiles what it does not take.
        index = lowering.kernel_index(self.asm["ptx"], self.raw)
        step = {"kind": "launch", "kernel": index, "grid": grid, "arguments": self.bind(values),
                "cooperative": bool(self.raw.get("launch_cooperative_grid", False)),
                "dependent": bool(self.raw.get("launch_pdl", False))}
        size = int(self.raw.get("global_scratch_size") or 0)
        if size > 0:
            from triton.runtime import _allocation
            allocator = _allocation._allocator
            allocator = allocator.get() if hasattr(allocator, "get") else allocator
            total = grid[0] * grid[1] * grid[2] * int(self.raw.get("num_ctas", 1)) * size
            scratch = allocator(total, int(self.raw.get("global_scratch_align") or 1), stream)
            step["scratch"] = pointer(lowering, scratch.data_ptr())
        if int(self.raw.get("profile_scratch_size") or 0) > 0:
            raise lowering.torch.NotHere("profiling inside of kernels")
        lowering.recorder.steps.append(step)

    def bind(self, values):
        """The kernel's parameters in order, constants left out."""
        out = []
        maps = list(self.raw.get("tensordesc_meta") or [])

        def add(kind, value):
            if isinstance(kind, (tuple, list)):
                for one, part in zip(kind, value):
                    add(one, part)
            elif kind == "constexpr":
                pass
            elif kind.startswith("tensordesc"):
                if not maps:
                    raise self.lowering.torch.NotHere("a tensor descriptor without its layout")
                out.extend(descriptor(self.lowering, value, maps.pop(0)))
            elif kind.startswith("*"):
                out.append(pointer(self.lowering, None if value is None else
                                   value.data_ptr() if hasattr(value, "data_ptr") else int(value)))
            else:
                out.append(scalar(self.lowering, kind, value))

        for kind, value in zip(self.src.signature.values(), values):
            add(kind, value)
        return out


def pointer(lowering, address):
    if address is None or address == 0:
        return {"kind": "null"}
    where = lowering.recorder.locate(address)
    if where is None:
        raise lowering.torch.NotHere(f"a pointer {address:#x} into no tensor of this call")
    return {"kind": "pointer", "buffer": where[0], "offset": where[1]}


FORMATS = {"fp16": "e", "bf16": "f", "fp32": "f", "f32": "f", "fp64": "d"}


def scalar(lowering, kind, value):
    if kind in FORMATS:
        bits = struct.pack("<" + FORMATS[kind], float(value))
        size = 8 if kind == "fp64" else 2 if kind in ("fp16", "bf16") else 4
        if kind == "bf16":
            bits = bits[2:]
        return {"kind": "scalar", "bytes": size, "value": int.from_bytes(bits, "little")}
    if kind[0] not in "iu" or not kind[1:].isdigit():
        raise lowering.torch.NotHere(f"a kernel parameter of type {kind}")
    number = int(value)
    size = max(int(kind[1:]), 8) // 8
    if size == 8 and lowering.recorder.locate(number) is not None:
        return pointer(lowering, number)  # data_ptr() passed as a number
    return {"kind": "scalar", "bytes": size, "value": number & ((1 << (8 * size)) - 1)}


# The numbering of element types differs between Triton's device and host side.
HOST_TYPES = {8: 10, 9: 8, 10: 9}


# Whose parameters of kernels with descriptors are known to be as below.
DESCRIPTOR_VERSIONS = ((3, 4), (3, 6))


def descriptor(lowering, value, meta):
    version = tuple(int(one) for one in lowering.triton.__version__.split(".")[:2])
    if not DESCRIPTOR_VERSIONS[0] <= version <= DESCRIPTOR_VERSIONS[1]:
        raise lowering.torch.NotHere(f"host tensor descriptors of Triton {lowering.triton.__version__}: known are 3.4 to "
                                     "3.6; make the descriptor in the kernel (tl.make_tensor_descriptor)")
    shape, strides = [int(one) for one in value.shape], [int(one) for one in value.strides]
    extents = list(shape)
    if meta.get("fp4_padded"):
        extents[-1] *= 2
    where = pointer(lowering, value.base.data_ptr())
    size = int(meta["elem_size"])
    out = [{"kind": "tensor_map", "buffer": where["buffer"], "offset": where["offset"],
            "type": HOST_TYPES.get(int(meta["elem_type"]), int(meta["elem_type"])), "swizzle": int(meta["swizzle"]),
            "element_bytes": size, "box": [int(one) for one in meta["block_size"]], "shape": extents,
            "strides": [one * size for one in strides], "nan_fill": getattr(value, "padding", "zero") == "nan"}]
    out += [scalar(lowering, "i32", one) for one in shape]
    out += [scalar(lowering, "i64", one) for one in strides]
    return out


# One call of `run`


def make_arguments(torch, call):
    """In call order. Tensors are the first buffers, in order; scalars are plain numbers."""
    values = []
    for one in call["arguments"]:
        if "value" in one:
            values.append(one["value"])
            continue
        kind = torch.BY_NAME.get(one["dtype"])
        if kind is None:
            raise torch.NotHere(f"a tensor of type {one['dtype']}")
        shape = one["shape"]
        size = kind.itemsize
        for extent in shape:
            size *= extent
        buffer = torch.RECORDER.new_buffer(size)
        values.append(torch.Tensor(buffer, 0, shape, torch.dense_strides(shape), kind))
    torch.RECORDER.arguments = len(torch.RECORDER.buffers)
    return values


def lower(request, answer):
    source = request["source"]
    tree = ast.parse(source, FILE)
    check_rules(tree, request["imports"])
    torch_module = types.ModuleType("torch_stand_in")
    exec(compile(request["stand_in"], "torch", "exec"), torch_module.__dict__)
    torch_module.install(request["target"])
    sys.path[:0] = request["path"]
    try:
        import triton
        import triton.language
    except Exception as error:
        answer.update(status="missing", rule="", message=f"Triton cannot be loaded: {type(error).__name__}: {error}")
        return
    answer["triton"] = triton.__version__
    lowering = Lowering(triton, torch_module, request)
    answer.update(kernels=lowering.kernels, notes=lowering.notes, calls=[])
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    module = types.ModuleType("kernel")
    module.__file__ = FILE
    module.__loader__ = None
    sys.modules["kernel"] = module
    exec(compile(tree, FILE, "exec"), module.__dict__)
    run = module.__dict__.get("run")
    if not callable(run):
        raise Refused("triton.no-run", "`run` is no function", 0)
    for call in request["calls"]:
        torch_module.RECORDER.begin()
        arguments = make_arguments(torch_module, call)
        given = len(arguments)
        try:
            inspect.signature(run).bind(*arguments)
        except TypeError as error:
            raise Refused("triton.arguments", f"`run` is called with the {given} inputs and outputs of the problem, in "
                          f"its order: {error}", 0) from None
        result = run(*arguments)
        if result is not None and any(result is not one for one in arguments):
            lowering.note("what `run` returns is not used: results go into the outputs it is given")
        if not any(step["kind"] == "launch" for step in torch_module.RECORDER.steps):
            raise Refused("triton.no-launch", "`run` launches no Triton kernel", 0)
        answer["calls"].append({"buffers": list(torch_module.RECORDER.buffers), "steps": torch_module.RECORDER.steps})
    answer["status"] = "lowered"


def describe(error):
    """Class, text and the candidate's line of what went wrong, as Triton nests it."""
    line, seen = candidate_line(error), error
    while seen is not None:
        node = getattr(seen, "node", None)
        source = getattr(seen, "src", None)
        if node is not None and hasattr(node, "lineno"):
            line = node.lineno + getattr(seen, "ptxbench_offset", 0)
            if isinstance(source, str):
                line = absolute_line(source, node.lineno)
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    text = str(error)
    last = error
    while last.__cause__ is not None and type(last).__name__ == "CompilationError":
        last = last.__cause__
    if last is not error and str(last) and str(last) not in text:
        text += f"\n{type(last).__name__}: {last}"
    return f"{type(error).__name__}: {text}", line


def absolute_line(source, number):
    """Line in the file of line `number` of a kernel whose text Triton has without its decorators."""
    lines = "".join(linecache.cache[FILE][2])
    at = lines.find(source.strip("\n"))
    return lines[:at].count("\n") + number if at >= 0 else number


def main():
    request = json.load(sys.stdin)
    answer = {"status": "failed", "rule": "", "message": "", "line": 0,
              "python": "{}.{}.{}".format(*sys.version_info[:3]), "triton": ""}
    try:
        lower(request, answer)
    except Refused as error:
        rule, message, line = error.args
        answer.update(status="refused", rule=rule, message=message, line=line)
    except SyntaxError as error:
        answer.update(rule="triton.syntax", message=f"SyntaxError: {error.msg}", line=error.lineno or 0)
    except MemoryError as error:
        answer.update(rule="compile.memory", message="compiling with Triton took more memory than it may",
                      line=candidate_line(error))
    except BaseException as error:
        stand_in = type(error).__name__ == "NotHere"
        message, line = describe(error)
        if stand_in:
            message = str(error)
        answer.update(rule="triton.not-provided" if stand_in else "triton.compile", message=message, line=line)
        traceback.print_exc()
    write_answer(request, answer)


main()
