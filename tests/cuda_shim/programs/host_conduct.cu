// `host_conduct NAME`: host code that behaves in the named way.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <cuda_runtime.h>

__global__ void set(int* p) { *p = 5; }

/// Tries every way to change the folder, in which `old` is a file, and names those that worked.
void change_files(const std::string& folder) {
  const std::string old = folder + "/old", fresh = folder + "/new";
  const auto tell = [](const char* what, bool worked) {
    if (worked) std::printf("%s ", what);
  };
  const auto opens = [](const std::string& path, int flags) {
    const int fd = open(path.c_str(), flags, 0644);
    if (fd >= 0) close(fd);
    return fd >= 0;
  };
  tell("read", opens(old, O_RDONLY));
  tell("write", opens(old, O_WRONLY));
  tell("update", opens(old, O_RDWR));
  tell("create", opens(fresh + "1", O_WRONLY | O_CREAT));
  tell("create-for-reading", opens(fresh + "2", O_RDONLY | O_CREAT));
  tell("temporary", opens(folder, O_TMPFILE | O_RDWR));
  tell("truncate-open", opens(old, O_RDONLY | O_TRUNC));
  tell("truncate", truncate(old.c_str(), 1) == 0);
  tell("fopen", std::fopen((fresh + "3").c_str(), "w") != nullptr);
  tell("append", std::fopen(old.c_str(), "a") != nullptr);
  tell("folder", mkdir((fresh + "4").c_str(), 0755) == 0);
  tell("symlink", symlink("old", (fresh + "5").c_str()) == 0);
  tell("link", link(old.c_str(), (fresh + "6").c_str()) == 0);
  tell("fifo", mkfifo((fresh + "7").c_str(), 0644) == 0);
  tell("mode", chmod(old.c_str(), 0600) == 0);
  const int reading = open(old.c_str(), O_RDONLY);
  tell("mode-of-descriptor", fchmod(reading, 0640) == 0);
  tell("times", utimes(old.c_str(), nullptr) == 0);
  const int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s8", fresh.c_str());
  tell("socket", bind(socket_fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  tell("rename", rename(old.c_str(), (fresh + "9").c_str()) == 0);
  tell("remove", unlink((fresh + "9").c_str()) == 0 || unlink(old.c_str()) == 0);
  std::printf("\n");
}

/// A child that tries to leave the process group by which it is ended.
void leave_group() {
  const pid_t child = fork();
  if (child == 0) {
    const bool group = setpgid(0, 0) == 0, session = setsid() >= 0;
    _exit((group ? 1 : 0) + (session ? 2 : 0));
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("%d\n", WEXITSTATUS(status));
}

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
  if (is("files")) change_files(argv[2]);
  if (is("group")) leave_group();
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
