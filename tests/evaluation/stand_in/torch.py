# A stand-in for PyTorch with just enough for the references of python_reference_test.cpp: flat tensors over memory.
import contextlib

float32, int32, bool = "f", "i", "?"


class Tensor:
    def __init__(self, values, shape):
        self.values, self.shape = values, list(shape)

    def __getitem__(self, index):
        return Tensor(self.values[index:index + 1], [])

    def __mul__(self, other):
        factors = other.values if isinstance(other, Tensor) else [other] * len(self.values)
        return Tensor([a * b for a, b in zip(self.values, factors)], self.shape)

    def item(self):
        return self.values[0]

    def numel(self):
        return len(self.values)

    def reshape(self, shape):
        return Tensor(self.values, [len(self.values)] if shape == -1 else shape)

    def detach(self):
        return self

    cpu = detach

    def to(self, dtype):
        return self

    def copy_(self, other):
        for i, value in enumerate(other.values):
            self.values[i] = value


def frombuffer(memory, dtype, count, offset):
    return Tensor(memoryview(memory)[offset:offset + 4 * count].cast(dtype), [count])


def empty(shape, dtype):
    return Tensor([], shape)


def as_tensor(value):
    return value if isinstance(value, Tensor) else Tensor([value], [])


def set_num_threads(count):
    pass


def manual_seed(seed):
    pass


no_grad = contextlib.nullcontext
