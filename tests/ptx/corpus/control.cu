// Calls, recursion, function pointers, tables, local arrays, printf, assert, virtual functions, shared and constant data.
#include <cassert>
#include <cstdio>

__device__ int numbers[4] = {1, 2, 3, 4};
__device__ int* pointers[2] = {&numbers[1], numbers};
__constant__ float scale[8] = {1.f, 2.5f};
__managed__ int managed_counter = 3;
struct __align__(16) Packed { char tag; int* where; double value; };
__device__ Packed packed = {'x', &numbers[2], 1.25};

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ __noinline__ double plus_one(double x) { return x + 1; }
__device__ __noinline__ double square(double x) { return x * x; }
typedef double (*Unary)(double);
__device__ Unary table[2] = {plus_one, square};
struct Shape { __device__ virtual int area() const { return 1; } };
struct Box : Shape { int side; __device__ int area() const override { return side * side; } };
struct Big { int values[12]; };
__device__ __noinline__ Big rotate(Big big, int by) {
  Big made;
  for (int i = 0; i < 12; ++i) made.values[i] = big.values[(i + by) % 12];
  return made;
}

extern __shared__ float dynamic[];

__global__ void __launch_bounds__(128, 2) calls(int* a, double* d, Big big, int n) {
  a[0] = fibonacci(n);
  d[0] = table[n & 1](d[1]);
  int local[64];
  for (int i = 0; i < 64; ++i) local[i] = a[i] * n;
  int sum = 0;
  for (int i = 0; i < 64; ++i) sum += local[a[i] & 63];
  a[1] = sum + *pointers[n & 1] + *packed.where + static_cast<int>(packed.value) + managed_counter;
  Box box;
  box.side = n;
  const Shape* shape = n > 3 ? static_cast<const Shape*>(new Box(box)) : new Shape;
  a[2] = shape->area();
  delete shape;
  const Big turned = rotate(big, n);
  a[3] = turned.values[n % 12];
  dynamic[threadIdx.x] = static_cast<float>(sum) * scale[n & 7];
  __syncthreads();
  d[3] = dynamic[threadIdx.x ^ 1];
  assert(n < 1000);
  printf("%d of %d: %f %s\n", a[0], n, d[0], "done");
  if (n == 77) __trap();
}

__global__ void switches(int* a, int n) {
  switch (n) {
    case 0: a[0] = fibonacci(3); break;
    case 1: a[3] = a[4] * 3; break;
    case 2: a[9] = a[1] / 3; break;
    case 3: a[8] = a[2] % 7; break;
    case 4: a[5] = static_cast<int>(table[1](3.0)); break;
    case 5: a[77] = 2; break;
    case 6: a[12] = a[13] / (n + 1); break;
    case 7: a[15] = 1 << a[1]; break;
    case 8: a[19] = a[7]; break;
    case 9: a[20] = a[7] ^ a[8]; break;
    default: a[88] = 9;
  }
  asm volatile("{\n .reg .u32 index;\n mov.u32 index, %0;\n table: .branchtargets one, two;\n brx.idx index, table;\n"
               "one: add.u32 index, index, 1;\ntwo: add.u32 index, index, 2;\n st.global.u32 [%1], index;\n}\n" ::"r"(n & 1), "l"(a));
#pragma unroll 1
  for (int i = 0; i < n; ++i) a[i] += __shfl_xor_sync(~0u, a[i + 1], 3);
}
