#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda_shim/client/core.h"

namespace ptxbench::cuda_shim::client {
namespace {

constexpr int kNoDevice = 100;
constexpr uint64_t kPage = 4096;

std::mutex g_mutex;
std::atomic<bool> g_forked{false};
bool g_prepared = false;
uint64_t g_window_base = 0, g_window_bytes = 0, g_memory_bytes = 0;
pthread_key_t g_key;
Channel* g_keeper = nullptr;  // holds the session while threads come and go; also the line of the fault handler
thread_local Channel* t_channel = nullptr;

void report_fault(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uint64_t>(info->si_addr);
  if (address >= g_window_base && address - g_window_base < g_window_bytes) {
    if (t_channel != nullptr) t_channel->call(Op::report_host_access, AddressBody{address, 0, 0});
  }
  // The access is repeated under the default action and ends the process as it would without us.
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  ::sigaction(SIGSEGV, &plain, nullptr);
}

void install_fault_handler() {
  struct sigaction present {};
  if (::sigaction(SIGSEGV, nullptr, &present) != 0 || (present.sa_flags & SA_SIGINFO) != 0 ||
      present.sa_handler != SIG_DFL) {
    return;
  }
  struct sigaction ours {};
  ours.sa_sigaction = report_fault;
  ours.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGSEGV, &ours, nullptr);
}

bool reserve_window(const HelloReply& hello) {
  void* wanted = reinterpret_cast<void*>(hello.window_base);
  void* got = ::mmap(wanted, hello.window_bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != wanted) {
    if (got != MAP_FAILED) ::munmap(got, hello.window_bytes);
    complain("cannot reserve the device's address window; `ulimit -v` must be unlimited");
    return false;
  }
  return true;
}

}  // namespace

void complain(const std::string& text) {
  const std::string line = "ptxbench: " + text + "\n";
  [[maybe_unused]] const ssize_t ignored = ::write(2, line.data(), line.size());
}

void stop_unsupported(const char* name) {
  std::fflush(nullptr);
  complain(std::string("unsupported.host-call: ") + name +
           " is not modelled by the emulated device; the program stops here");
  int error = 0;
  if (Channel* channel = Channel::get(error); channel != nullptr) {
    const std::size_t bytes = std::strlen(name);
    std::memcpy(channel->staging(), name, bytes);
    channel->call(Op::report_unsupported, BytesBody{bytes, 0});
  }
  ::_exit(kUnsupportedExit);
}

uint64_t device_memory_bytes() {
  int error = 0;
  Channel::get(error);
  return g_memory_bytes;
}

bool in_window(const void* pointer) {
  const auto address = reinterpret_cast<uint64_t>(pointer);
  return address >= kPage && address >= g_window_base && address - g_window_base < g_window_bytes;
}

Channel* Channel::connect_new(int& error, bool lasting) {
  const char* path = std::getenv(kSocketVariable);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path == nullptr || std::strlen(path) >= sizeof address.sun_path) {
    static std::atomic<bool> told{false};
    if (!told.exchange(true))
      complain("no emulated device here: run the program with `ptxbench emulate -- PROGRAM ARGS...`");
    error = kNoDevice;
    return nullptr;
  }
  std::memcpy(address.sun_path, path, std::strlen(path) + 1);
  std::unique_ptr<Channel> channel(new Channel);
  channel->fd_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  error = kNoDevice;
  if (channel->fd_ < 0 || ::connect(channel->fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    complain(std::string("cannot reach the emulated device: ") + std::strerror(errno));
    return nullptr;
  }
  int descriptor = -1;
  const Reply reply = channel->call(Op::hello, BytesBody{0, lasting ? 1u : 0u}, &descriptor);
  if (reply.error != 0 || descriptor < 0) {
    complain("the emulated device serves another process; one process at a time may use it");
    error = cuda_error::kInitialization;
    return nullptr;
  }
  const auto hello = get_body<HelloReply>(reply);
  void* staging = ::mmap(nullptr, hello.staging_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  if (staging == MAP_FAILED || hello.staging_bytes != kStagingBytes) return nullptr;
  channel->staging_ = static_cast<std::byte*>(staging);
  if (g_window_bytes == 0) {
    if (!reserve_window(hello)) return nullptr;
    g_window_base = hello.window_base;
    g_window_bytes = hello.window_bytes;
    g_memory_bytes = hello.memory_bytes;
  }
  error = 0;
  return channel.release();
}

Channel* Channel::get(int& error) {
  error = 0;
  if (g_forked.load(std::memory_order_relaxed)) {
    error = cuda_error::kInitialization;  // as CUDA answers in a forked child
    return nullptr;
  }
  if (t_channel != nullptr) return t_channel;
  const std::lock_guard lock(g_mutex);
  if (!g_prepared) {
    g_keeper = connect_new(error, true);
    if (g_keeper == nullptr) return nullptr;
    // A key's destructor runs for threads that end, but not at exit: calls from static destructors still find a
    // channel.
    ::pthread_key_create(&g_key, [](void* channel) {
      delete static_cast<Channel*>(channel);
      t_channel = nullptr;
    });
    ::pthread_atfork(nullptr, nullptr, [] { g_forked.store(true); });
    install_fault_handler();
    g_prepared = true;
  }
  t_channel = connect_new(error);
  if (t_channel != nullptr) ::pthread_setspecific(g_key, t_channel);
  return t_channel;
}

Channel::~Channel() {
  if (fd_ >= 0) ::close(fd_);
  if (staging_ != nullptr) ::munmap(staging_, kStagingBytes);
}

Reply Channel::exchange(Request& request, int* descriptor) {
  Reply lost;
  lost.error = cuda_error::kUnknown;
  request.serial = ++serial_;
  ssize_t count = 0;
  do {
    count = ::send(fd_, &request, sizeof request, MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  if (count != static_cast<ssize_t>(sizeof request)) return lost;
  Reply reply;
  iovec part{&reply, sizeof reply};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  do {
    count = ::recvmsg(fd_, &message, MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  int received = -1;
  if (count >= 0) {
    if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr && header->cmsg_type == SCM_RIGHTS) {
      std::memcpy(&received, CMSG_DATA(header), sizeof received);
    }
  }
  if (count != static_cast<ssize_t>(sizeof reply) || reply.magic != kProtocolMagic || reply.serial != request.serial) {
    static std::atomic<bool> told{false};
    if (!told.exchange(true)) complain("the device went away");
    if (received >= 0) ::close(received);
    return lost;
  }
  if (descriptor != nullptr) {
    *descriptor = received;
  } else if (received >= 0) {
    ::close(received);
  }
  return reply;
}

void Channel::print_output() {
  while (true) {
    const Reply reply = call(Op::fetch_output, BytesBody{});
    const uint64_t bytes = get_body<BytesBody>(reply).bytes;
    if (reply.error != 0 || bytes == 0 || bytes > kStagingBytes) return;
    std::fwrite(staging_, 1, static_cast<std::size_t>(bytes), stdout);
  }
}

}  // namespace ptxbench::cuda_shim::client
