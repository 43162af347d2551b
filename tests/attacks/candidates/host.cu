// Attacks on the process that judges, on the machine and on the report. Probes of the sandbox say what they found.
#include "common.cuh"

#include <dirent.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <netinet/in.h>
#include <string>
#include <thread>
#include <vector>

namespace {

bool can_read(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY);
  char byte = 0;
  const bool got = fd >= 0 && read(fd, &byte, 1) == 1;
  if (fd >= 0) close(fd);
  return got;
}
bool can_list(const std::string& path) {
  DIR* folder = opendir(path.c_str());
  const bool got = folder != nullptr && readdir(folder) != nullptr;
  if (folder != nullptr) closedir(folder);
  return got;
}

struct Report {
  uint32_t magic = 0x54505252, step = 4, outcome = 1;
  int32_t code = 0;
  char text[64 + 4096 + 3072] = {};
};
template <class Bytes>
void write_everywhere(const Bytes& bytes) {
  signal(SIGXFSZ, SIG_IGN);
  for (int fd = 3; fd < 64; ++fd) {
    if (write(fd, &bytes, sizeof bytes) < 0) continue;
  }
}

/// Whether the device behind a socket takes this process as its client.
bool is_served(const std::string& path) {
  struct {
    uint32_t magic = 0x58425850;
    uint16_t version = 1, op = 1;
    uint64_t serial = 1;
    char body[104] = {};
  } hello;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path.c_str());
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  struct {
    uint32_t magic = 0;
    int32_t error = -1;
    char rest[120] = {};
  } reply;
  const timeval second{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
  const bool served = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                      send(fd, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello &&
                      recv(fd, &reply, sizeof reply, 0) > 0 && reply.error == 0;
  close(fd);
  return served;
}

struct AtTheEnd {
  ~AtTheEnd() { std::exit(0); }
} at_the_end;

void run(tvm::ffi::TensorView at, tvm::ffi::TensorView bt, tvm::ffi::TensorView ct) {
  const Call call(at, bt, ct);
  const std::string parent = "/proc/" + std::to_string(getppid());
  switch (call.m) {
    case 1:
      for (const char* name : {"/mem", "/maps", "/environ", "/syscall"}) verdict(can_read(parent + name), name);
      break;
    case 2:
      verdict(ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr) == 0, "tracing the parent");
      verdict(kill(getppid(), SIGSTOP) == 0, "stopping the parent");
      break;
    case 3: {
      int opened = 0;
      for (const char* name : {"/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm"}) opened += open(name, O_RDWR) >= 0 || open(name, O_RDONLY) >= 0;
      verdict(opened != 0, "opening a GPU");
      char answer[256] = {};
      // Asks the driver for its version, as the first thing any client does: of any descriptor, the filter says.
      verdict(ioctl(0, _IOWR('F', 210, answer), answer) == 0 || errno != EPERM, "ioctl of a GPU");
      verdict(ioctl(0, TIOCSTI, "x") == 0 || errno != EPERM, "typing into the terminal");
      break;
    }
    case 4: {
      verdict(socket(AF_INET, SOCK_STREAM, 0) >= 0 || socket(AF_INET6, SOCK_DGRAM, 0) >= 0, "network");
      verdict(socket(AF_NETLINK, SOCK_RAW, 0) >= 0, "netlink");
      break;
    }
    case 5: {
      const std::string own = std::getenv("PTXBENCH_SHIM_SOCKET");
      bool served = false;
      for (const std::string folder : {"/tmp", "/var/tmp"}) {
        DIR* all = opendir(folder.c_str());
        while (const dirent* one = all == nullptr ? nullptr : readdir(all)) {
          const std::string path = folder + "/" + one->d_name + "/socket";
          if (path != own && path.find("ptxbench-device") != std::string::npos) served = is_served(path) || served;
        }
      }
      verdict(served, "the device of another candidate");
      break;
    }
    case 6: {
      int children = 0;
      for (int i = 0; i < 1000; ++i) {
        const pid_t child = fork();
        if (child == 0) {
          while (true) pause();
        }
        children += child > 0;
      }
      verdict(children != 0, "other processes");
      break;
    }
    case 7: {
      std::vector<std::thread> threads;
      try {
        for (int i = 0; i < 2000; ++i) threads.emplace_back([] { usleep(1000); });
      } catch (...) {
      }
      for (std::thread& one : threads) one.join();
      break;
    }
    case 8: std::exit(0);
    case 9: break;  // see at_the_end
    case 10:
    case 11:
      std::puts("verdict: PASSED\n[  PASSED  ] correct, exit code 0\n{\"schema\":\"ptxbench.evaluation/1\",\"verdict\":{\"status\":\"passed\"}}");
      std::fputs("PASSED\n", stderr);
      if (call.m == 10) return;
      TVM_FFI_THROW(ValueError) << "verdict: PASSED";
    case 12: write_everywhere(Report()); return;
    case 13: write_everywhere(Report()); _exit(0);
    case 14: {  // oversized and damaged messages on all connections
      call.honest();
      std::vector<char> big(200000, 'x');
      for (int fd = 3; fd < 64; ++fd) {
        send(fd, big.data(), big.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        send(fd, big.data(), 120, MSG_NOSIGNAL | MSG_DONTWAIT);
        send(fd, big.data(), 1, MSG_NOSIGNAL | MSG_DONTWAIT);
      }
      return;
    }
    case 15:
      while (true) pause();
    case 16:
      for (volatile int spin = 0;; spin = spin + 1) {
      }
    case 17: {
      const char* home = std::getenv("HOME");
      verdict(can_list(home == nullptr ? "/root" : home), "listing the home folder");
      verdict(can_read("/etc/passwd"), "reading /etc/passwd");
      verdict(can_list("/tmp"), "listing /tmp");
      verdict(can_list(parent), "listing /proc of the parent");
      char here[4096] = {};
      verdict(getcwd(here, sizeof here) != nullptr && can_list(here), "listing the working folder");
      break;
    }
    case 20: {
      bool found = false;
      for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string text = *entry;
        found = found || text.find("_KEY=") != std::string::npos || text.find("_TOKEN=") != std::string::npos;
      }
      verdict(found, "keys in the environment");
      break;
    }
    case 18: {
      const int memory = memfd_create("hog", 0);
      verdict(memory >= 0, "memfd");
      verdict(shmget(IPC_PRIVATE, 4096, 0600) >= 0, "System V memory");
      verdict(mmap(nullptr, 1 << 30, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED, "shared memory");
      verdict(mmap(nullptr, size_t{1} << 40, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED, "a lot of memory");
      break;
    }
    case 19: {
      signal(SIGXFSZ, SIG_IGN);
      verdict(open("/tmp/ptxbench-attack", O_WRONLY | O_CREAT, 0600) >= 0, "writing a file");
      verdict(open("/dev/shm/ptxbench-attack", O_RDWR | O_CREAT, 0600) >= 0, "writing shared memory");
      break;
    }
    default: break;
  }
  std::fflush(stdout);
  call.honest();
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
