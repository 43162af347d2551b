// `host_conduct NAME`: host code that behaves in the named way.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <cuda_runtime.h>

__global__ void set(int* p) { *p = 5; }

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "";
  const auto is = [&](const char* wanted) { return std::strcmp(name, wanted) == 0; };
  int* memory = nullptr;
  if (cudaMalloc(&memory, 64) != cudaSuccess) return 9;
  if (is("exit")) std::exit(3);
  if (is("abort")) std::abort();
  if (is("loop")) {
    for (volatile int i = 0;; i = 1 - i) {
    }
  }
  if (is("touch")) *memory = 1;
  if (is("unsynchronised")) {
    set<<<1, 1>>>(memory);
    return 0;
  }
  if (is("graph")) {
    cudaGraph_t graph;
    cudaGraphCreate(&graph, 0);
    std::printf("not reached\n");
  }
  if (is("network")) {
    const int inet = socket(AF_INET, SOCK_STREAM, 0);
    std::printf("%s\n", inet < 0 ? "no network" : "network");
  }
  if (is("parent")) {
    const bool kill_refused = kill(getppid(), SIGTERM) != 0, all_refused = kill(-1, SIGCONT) != 0;
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/mem", getppid());
    std::FILE* memory_file = std::fopen(path, "r+");
    std::printf("%d %d %d\n", kill_refused, all_refused, memory_file == nullptr);
  }
  if (is("memory")) {
    void* block = std::malloc(64ull << 30);
    std::printf("%s\n", block == nullptr ? "refused" : "given");
  }
  if (is("fork")) {
    const pid_t child = fork();
    if (child == 0) _exit(cudaMalloc(&memory, 4) == cudaErrorInitializationError ? 0 : 1);
    set<<<1, 1>>>(memory);
    std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  }
  return 0;
}
