# What Triton host code uses of PyTorch, without PyTorch: tensors that have a shape, strides, a dtype and an address, but
# no contents; allocation of scratch; copies and fills of whole tensors, which are recorded. Every other name of torch is
# an error that says so: the mathematics belongs into Triton kernels.
import math
import sys
import types

# Buffer i begins at (FIRST + i) << ADDRESS_BITS: numbers that no kernel has as a size, a mask or a seed, as an integer that
# is one of these addresses is taken for a pointer.
ADDRESS_BITS, FIRST = 40, 0x5A7C
MOST_BUFFERS = 1024
MOST_BYTES = 1 << ADDRESS_BITS


class NotHere(Exception):
    """Something of torch that is not provided, or that needs a tensor's contents."""


class dtype:
    def __init__(self, name, itemsize, floating=False, lowest=None, highest=None, eps=None, tiny=None):
        self.name, self.itemsize, self.is_floating_point = name, itemsize, floating
        self.is_complex, self.is_signed = False, not name.startswith("uint") and name != "bool"
        self._limits = (lowest, highest, eps, tiny)

    def __repr__(self):
        return "torch." + self.name

    def __reduce__(self):
        return self.name


dtype.__module__ = "torch"


def _floating(name, itemsize, highest, eps, tiny):
    return dtype(name, itemsize, True, -highest, highest, eps, tiny)


def _integer(name, bits, signed=True):
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return dtype(name, bits // 8, False, low, high)


DTYPES = [
    _floating("float64", 8, sys.float_info.max, sys.float_info.epsilon, sys.float_info.min),
    _floating("float32", 4, (2 - 2.0**-23) * 2.0**127, 2.0**-23, 2.0**-126),
    _floating("float16", 2, 65504.0, 2.0**-10, 2.0**-14),
    _floating("bfloat16", 2, (2 - 2.0**-7) * 2.0**127, 2.0**-7, 2.0**-126),
    _floating("float8_e4m3fn", 1, 448.0, 2.0**-3, 2.0**-6),
    _floating("float8_e5m2", 1, 57344.0, 2.0**-2, 2.0**-14),
    _integer("int64", 64), _integer("int32", 32), _integer("int16", 16), _integer("int8", 8),
    _integer("uint8", 8, False), _integer("uint16", 16, False), _integer("uint32", 32, False),
    _integer("uint64", 64, False), dtype("bool", 1, False, 0, 1),
]
BY_NAME = {one.name: one for one in DTYPES}
ALIASES = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32",
           "short": "int16"}


class _Limits:
    def __init__(self, of):
        low, high, eps, tiny = of._limits
        self.min, self.max, self.eps, self.tiny, self.smallest_normal = low, high, eps, tiny, tiny
        self.bits, self.dtype = of.itemsize * 8, of.name


class Size(tuple):
    def numel(self):
        return math.prod(self)

    def __repr__(self):
        return f"torch.Size({list(self)})"


class device:
    def __init__(self, type="cuda", index=None):
        name = str(type)
        self.type, _, number = name.partition(":")
        self.index = int(number) if number else index
        if self.type == "meta" or self.type not in ("cuda", "cpu"):
            raise NotHere(f"torch.device({name!r}): only the CUDA device is there")

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self):
        return f"device(type='{self.type}')"

    def __eq__(self, other):
        return str(other).partition(":")[0] == self.type

    def __hash__(self):
        return hash(self.type)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


CUDA = device("cuda", 0)


class Recorder:
    """The buffers of one call of `run` and what happens to them, in order."""

    def __init__(self):
        self.begin()

    def begin(self):
        self.buffers, self.steps, self.arguments = [], [], 0

    def new_buffer(self, size):
        if len(self.buffers) >= MOST_BUFFERS:
            raise NotHere(f"more than {MOST_BUFFERS} tensors are allocated in one call")
        if not 0 <= size < MOST_BYTES:
            raise NotHere(f"a tensor of {size} bytes")
        self.buffers.append(size)
        return len(self.buffers) - 1

    def locate(self, address):
        """(buffer, byte offset) that an address belongs to, or None."""
        index, offset = (address >> ADDRESS_BITS) - FIRST, address & (MOST_BYTES - 1)
        if 0 <= index < len(self.buffers) and offset <= self.buffers[index]:
            return index, offset
        return None


RECORDER = Recorder()


def dense_strides(shape):
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def _no_contents(what):
    def refuse(self, *_, **__):
        raise NotHere(f"{what} of a tensor: kernels are compiled before there are data, so host code cannot read "
                      "a tensor's contents; decide by shapes, or inside of a kernel")

    return refuse


def _no_operator(name):
    def refuse(self, *_, **__):
        raise NotHere(f"`{name}` on tensors in host code: torch does no mathematics here, write it into a Triton kernel")

    return refuse


class Tensor:
    is_cuda, requires_grad, grad, layout = True, False, None, "strided"

    def __init__(self, buffer, offset, shape, strides, kind):
        self._buffer, self._offset = buffer, offset  # offset in elements
        self.shape, self._strides, self.dtype = Size(shape), tuple(strides), kind

    device = property(lambda self: CUDA)
    ndim = property(lambda self: len(self.shape))
    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: self.numel() * self.itemsize)
    T = property(lambda self: self.t() if self.ndim == 2 else self.permute(*reversed(range(self.ndim))))
    mT = property(lambda self: self.transpose(-2, -1))

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim=None):
        return self._strides if dim is None else self._strides[dim]

    def dim(self):
        return self.ndim

    def numel(self):
        return math.prod(self.shape)

    nelement = numel

    def element_size(self):
        return self.itemsize

    def storage_offset(self):
        return self._offset

    def data_ptr(self):
        return ((self._buffer + FIRST) << ADDRESS_BITS) + self._offset * self.itemsize

    def get_device(self):
        return 0

    def is_floating_point(self):
        return self.dtype.is_floating_point

    def is_contiguous(self, memory_format=None):
        want = dense_strides(self.shape)
        return self.numel() == 0 or all(a == b or n == 1 for a, b, n in zip(self._strides, want, self.shape))

    def contiguous(self, memory_format=None):
        if self.is_contiguous():
            return self
        raise NotHere("contiguous() of a tensor that is not: moving elements is a kernel's work; "
                      "pass the strides to your Triton kernel instead")

    def detach(self):
        return self

    def requires_grad_(self, on=False):
        return self

    def _like(self, shape, strides, offset=None):
        return Tensor(self._buffer, self._offset if offset is None else offset, shape, strides, self.dtype)

    # views

    def view(self, *shape):
        if len(shape) == 1 and isinstance(shape[0], dtype):
            return self._view_as(shape[0])
        shape = _shape_of(shape)
        if shape.count(-1) == 1:
            known = math.prod(extent for extent in shape if extent != -1)
            if known == 0 or self.numel() % known:
                raise RuntimeError(f"shape {list(shape)} is invalid for input of size {self.numel()}")
            shape = tuple(self.numel() // known if extent == -1 else extent for extent in shape)
        if math.prod(shape) != self.numel():
            raise RuntimeError(f"shape {list(shape)} is invalid for input of size {self.numel()}")
        if not self.is_contiguous():
            raise NotHere("view or reshape of a tensor that is not contiguous: pass its strides to your Triton kernel")
        return self._like(shape, dense_strides(shape))

    reshape = view

    def view_as(self, other):
        return self.view(*other.shape)

    def _view_as(self, kind):
        old, new = self.itemsize, kind.itemsize
        if old == new:
            return Tensor(self._buffer, self._offset, self.shape, self._strides, kind)
        if not self.is_contiguous() or self.ndim == 0 or (self.shape[-1] * old) % new or (self._offset * old) % new:
            raise RuntimeError(f"cannot view {self.dtype} as {kind} here")
        shape = self.shape[:-1] + (self.shape[-1] * old // new,)
        return Tensor(self._buffer, self._offset * old // new, shape, dense_strides(shape), kind)

    def flatten(self, start_dim=0, end_dim=-1):
        start, end = start_dim % max(self.ndim, 1), end_dim % max(self.ndim, 1)
        return self.view(*self.shape[:start], math.prod(self.shape[start:end + 1]), *self.shape[end + 1:])

    def unflatten(self, dim, sizes):
        dim %= self.ndim
        return self.view(*self.shape[:dim], *sizes, *self.shape[dim + 1:])

    def permute(self, *order):
        order = [axis % self.ndim for axis in _shape_of(order)]
        if sorted(order) != list(range(self.ndim)):
            raise RuntimeError(f"permute({order}) of a tensor with {self.ndim} dimensions")
        return self._like([self.shape[axis] for axis in order], [self._strides[axis] for axis in order])

    def transpose(self, one, other):
        order = list(range(self.ndim))
        one, other = one % self.ndim, other % self.ndim
        order[one], order[other] = order[other], order[one]
        return self.permute(*order)

    swapaxes = transpose

    def t(self):
        return self if self.ndim < 2 else self.transpose(0, 1)

    def unsqueeze(self, dim):
        dim %= self.ndim + 1
        shape, strides = list(self.shape), list(self._strides)
        strides.insert(dim, strides[dim] * shape[dim] if dim < self.ndim else 1)
        shape.insert(dim, 1)
        return self._like(shape, strides)

    def squeeze(self, dim=None):
        gone = range(self.ndim) if dim is None else [dim % self.ndim]
        kept = [axis for axis in range(self.ndim) if axis not in gone or self.shape[axis] != 1]
        return self._like([self.shape[axis] for axis in kept], [self._strides[axis] for axis in kept])

    def expand(self, *shape):
        shape = _shape_of(shape)
        extra = len(shape) - self.ndim
        out, strides = list(shape), [0] * len(shape)
        for axis in range(self.ndim):
            old, new = self.shape[axis], shape[axis + extra]
            if new not in (-1, old) and old != 1:
                raise RuntimeError(f"cannot expand {list(self.shape)} to {list(shape)}")
            out[axis + extra] = old if new == -1 else new
            strides[axis + extra] = 0 if old == 1 and new not in (-1, 1) else self._strides[axis]
        return self._like(out, strides)

    def narrow(self, dim, start, length):
        index = [slice(None)] * self.ndim
        index[dim % self.ndim] = slice(start, start + length)
        return self[tuple(index)]

    def select(self, dim, index):
        where = [slice(None)] * self.ndim
        where[dim % self.ndim] = index
        return self[tuple(where)]

    def split(self, size, dim=0):
        extent = self.shape[dim]
        sizes = size if isinstance(size, (list, tuple)) else [min(size, extent - at) for at in range(0, extent, size)]
        parts, at = [], 0
        for length in sizes:
            parts.append(self.narrow(dim, at, length))
            at += length
        return tuple(parts)

    def chunk(self, chunks, dim=0):
        return self.split(-(-self.shape[dim] // chunks), dim)

    def unbind(self, dim=0):
        return tuple(self.select(dim, index) for index in range(self.shape[dim]))

    def as_strided(self, size, stride, storage_offset=None):
        return self._like(size, stride, self._offset if storage_offset is None else storage_offset)

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        if Ellipsis in [one for one in index if one is Ellipsis]:
            at = next(i for i, one in enumerate(index) if one is Ellipsis)
            given = sum(one is not None and one is not Ellipsis for one in index)
            index = index[:at] + (slice(None),) * (self.ndim - given) + index[at + 1:]
        shape, strides, offset, axis = [], [], self._offset, 0
        for one in index:
            if one is None:
                shape.append(1)
                strides.append(1)
                continue
            if axis >= self.ndim:
                raise IndexError(f"too many indices for tensor of dimension {self.ndim}")
            extent, step = self.shape[axis], self._strides[axis]
            axis += 1
            if isinstance(one, slice):
                start, stop, stride = one.indices(extent)
                if stride < 1:
                    raise ValueError("step must be greater than zero")
                shape.append(max(0, -(-(stop - start) // stride)))
                strides.append(step * stride)
                offset += start * step
            elif isinstance(one, int):
                if not -extent <= one < extent:
                    raise IndexError(f"index {one} is out of bounds for dimension {axis - 1} with size {extent}")
                offset += one % extent * step
            else:
                raise NotHere(f"indexing a tensor with {type(one).__name__}: gathering is a kernel's work")
        return self._like(shape + list(self.shape[axis:]), strides + list(self._strides[axis:]), offset)

    # what writes memory, and is recorded

    def _range(self, what):
        if not self.is_contiguous():
            raise NotHere(f"{what} of a tensor that is not contiguous: write a Triton kernel for it")
        return self._buffer, self._offset * self.itemsize, self.nbytes

    def fill_(self, value):
        buffer, offset, size = self._range("fill_")
        pattern = _bits_of(value, self.dtype)
        if size:
            RECORDER.steps.append({"kind": "fill", "buffer": buffer, "offset": offset, "bytes": size,
                                   "width": self.itemsize, "value": pattern})
        return self

    def zero_(self):
        return self.fill_(0)

    def copy_(self, other, non_blocking=False):
        if not isinstance(other, Tensor) or other.dtype is not self.dtype or other.shape != self.shape:
            raise NotHere("copy_ from something of another shape or dtype: converting is a kernel's work")
        buffer, offset, size = self._range("copy_")
        source, source_offset, _ = other._range("copy_")
        if size:
            RECORDER.steps.append({"kind": "copy", "buffer": buffer, "offset": offset, "bytes": size, "from": source,
                                   "from_offset": source_offset})
        return self

    def clone(self, memory_format=None):
        return empty_like(self).copy_(self)

    def new_empty(self, *size, dtype=None, device=None):
        return empty(*size, dtype=dtype or self.dtype)

    def new_zeros(self, *size, dtype=None, device=None):
        return zeros(*size, dtype=dtype or self.dtype)

    def to(self, *what, dtype=None, device=None, non_blocking=False, copy=False, memory_format=None):
        for one in (*what, dtype, device):
            same = one is None or one == self.device or one is self.dtype
            if not same and not (isinstance(one, int) and one == 0):
                raise NotHere(f"Tensor.to({one}): converting and moving are a kernel's work")
        return self

    def cuda(self, *_, **__):
        return self

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __repr__(self):
        return f"tensor(shape={list(self.shape)}, dtype={self.dtype}, device='cuda:0')"

    __hash__ = object.__hash__

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotHere(f"torch.Tensor.{name} is not provided: torch does no mathematics here, only shapes, views, "
                      "allocation, fills and copies; write a Triton kernel")


for _name, _text in (("item", "item()"), ("tolist", "tolist()"), ("cpu", "cpu()"), ("numpy", "numpy()"),
                     ("__bool__", "the truth value"), ("__int__", "the value"), ("__float__", "the value"),
                     ("__index__", "the value"), ("__iter__", "iterating over the values"), ("any", "any()"),
                     ("all", "all()"), ("max", "max()"), ("min", "min()"), ("nonzero", "nonzero()")):
    setattr(Tensor, _name, _no_contents(_text))
for _name, _text in (("add", "+"), ("radd", "+"), ("sub", "-"), ("rsub", "-"), ("mul", "*"), ("rmul", "*"),
                     ("truediv", "/"), ("rtruediv", "/"), ("matmul", "@"), ("rmatmul", "@"), ("pow", "**"),
                     ("neg", "-"), ("floordiv", "//"), ("mod", "%"), ("lt", "<"), ("le", "<="), ("gt", ">"),
                     ("ge", ">="), ("eq", "=="), ("ne", "!="), ("iadd", "+="), ("isub", "-="), ("imul", "*="),
                     ("setitem", "[...] ="), ("and", "&"), ("or", "|"), ("invert", "~")):
    setattr(Tensor, f"__{_name}__", _no_operator(_text))
Tensor.__module__ = "torch"


def _shape_of(shape):
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = shape[0]
    return tuple(int(extent) for extent in shape)


def _bits_of(value, kind):
    """The bit pattern of a value in a dtype."""
    import struct
    if isinstance(value, Tensor):
        raise NotHere("fill_ with a tensor")
    if not kind.is_floating_point:
        return int(value) & ((1 << (kind.itemsize * 8)) - 1)
    value = float(value)
    if value == 0 and math.copysign(1, value) > 0:
        return 0
    if kind.name == "float64":
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    if kind.name == "float16":
        return struct.unpack("<H", struct.pack("<e", value))[0]
    single = struct.unpack("<I", struct.pack("<f", value))[0]
    if kind.name == "float32":
        return single
    if kind.name == "bfloat16":
        return (single + 0x7FFF + ((single >> 16) & 1)) >> 16 if math.isfinite(value) else single >> 16
    raise NotHere(f"filling {kind} with another value than 0")


def empty(*size, dtype=None, device="cuda", out=None, requires_grad=False, pin_memory=False, memory_format=None, **more):
    if "size" in more:
        size = (more.pop("size"),)
    if more or out is not None:
        raise NotHere(f"torch.empty with {', '.join(more) or 'out'}")
    if str(device).partition(":")[0] not in ("cuda", "None"):
        raise NotHere(f"a tensor on device {device!r}: scratch lives on the GPU (device='cuda')")
    shape, kind = _shape_of(size), dtype or BY_NAME["float32"]
    if not isinstance(kind, globals()["dtype"]):
        raise TypeError(f"dtype {kind!r} is no torch dtype")
    if any(extent < 0 for extent in shape):
        raise RuntimeError(f"negative dimension in {list(shape)}")
    buffer = RECORDER.new_buffer(math.prod(shape) * kind.itemsize)
    return Tensor(buffer, 0, shape, dense_strides(shape), kind)


def zeros(*size, **named):
    return empty(*size, **named).zero_()


def ones(*size, **named):
    return empty(*size, **named).fill_(1)


def full(size, fill_value, **named):
    named.setdefault("dtype", BY_NAME["float32" if isinstance(fill_value, float) else "int64"])
    return empty(size, **named).fill_(fill_value)


def empty_like(other, dtype=None, **named):
    return empty(other.shape, dtype=dtype or other.dtype, **named)


def zeros_like(other, dtype=None, **named):
    return empty_like(other, dtype=dtype, **named).zero_()


def ones_like(other, dtype=None, **named):
    return empty_like(other, dtype=dtype, **named).fill_(1)


def full_like(other, fill_value, dtype=None, **named):
    return empty_like(other, dtype=dtype, **named).fill_(fill_value)


def empty_strided(size, stride, **named):
    last = sum((extent - 1) * step for extent, step in zip(size, stride) if extent > 0)
    return empty(last + 1, **named).as_strided(size, stride)


class _NoGrad:
    def __init__(self, *_, **__):
        pass

    def __call__(self, function):
        return function

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


class Stream:
    cuda_stream, device = 0, CUDA

    def synchronize(self):
        pass

    wait_stream = wait_event = lambda self, *_: None


class _Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotHere(f"{self.__name__}.{name} is not provided: of torch there are tensors' shapes, views, allocation "
                      "(empty, zeros, full, *_like), fills and copies; mathematics belongs into a Triton kernel")


def install(target):
    """Puts the stand-in where `import torch` finds it."""
    torch = _Module("torch")
    torch.__version__, torch.__path__ = "2.9.0", []
    for one in DTYPES:
        setattr(torch, one.name, one)
    for alias, name in ALIASES.items():
        setattr(torch, alias, BY_NAME[name])
    for name in ("Tensor", "Size", "device", "dtype", "empty", "zeros", "ones", "full", "empty_like", "zeros_like",
                 "ones_like", "full_like", "empty_strided"):
        setattr(torch, name, globals()[name])
    torch.float = BY_NAME["float32"]
    torch.finfo = torch.iinfo = _Limits
    torch.inf, torch.nan, torch.pi, torch.e = math.inf, math.nan, math.pi, math.e
    torch.no_grad = torch.inference_mode = torch.enable_grad = _NoGrad
    torch.is_tensor = lambda value: isinstance(value, Tensor)
    torch.numel = Tensor.numel
    torch.transpose, torch.permute, torch.reshape = Tensor.transpose, Tensor.permute, Tensor.view
    torch.set_float32_matmul_precision = lambda *_: None
    torch.strided = "strided"
    torch.contiguous_format, torch.preserve_format = "contiguous", "preserve"
    torch.version = _Module("torch.version")
    torch.version.cuda, torch.version.hip = "13.0", None

    cuda = torch.cuda = _Module("torch.cuda")
    properties = types.SimpleNamespace(
        name=target["name"], multi_processor_count=target["sm_count"], major=target["arch"] // 10,
        minor=target["arch"] % 10, shared_memory_per_block_optin=target["shared_bytes"], warp_size=32,
        shared_memory_per_multiprocessor=target["shared_bytes"] + 1024, regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=2048, total_memory=target["memory_bytes"], L2_cache_size=target["l2_bytes"])
    cuda.get_device_properties = lambda device=None: properties
    cuda.get_device_capability = lambda device=None: (properties.major, properties.minor)
    cuda.get_device_name = lambda device=None: properties.name
    cuda.current_device = lambda: 0
    cuda.device_count = lambda: 1
    cuda.is_available = lambda: True
    cuda.synchronize = cuda.empty_cache = cuda.set_device = lambda *_: None
    cuda.current_stream = cuda.default_stream = lambda device=None: Stream()
    cuda.Stream = Stream
    cuda.device = device
    cuda.stream = _NoGrad

    nn = torch.nn = _Module("torch.nn")
    nn.functional = _Module("torch.nn.functional")
    for module in (torch, cuda, nn, nn.functional, torch.version):
        module.__path__ = []
        sys.modules[module.__name__] = module
    return torch
