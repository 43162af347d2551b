#include "cuda_shim/server.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <list>
#include <thread>

#include "base/cpu_meter.h"
#include "base/files.h"

namespace ptxbench::cuda_shim {
namespace {

void merge(ShimReport& into, const ShimReport& from) {
  into.clients += from.clients;
  into.launches += from.launches;
  into.launches_cancelled += from.launches_cancelled;
  into.warp_instructions += from.warp_instructions;
  into.kernel_seconds += from.kernel_seconds;
  into.bytes_to_device += from.bytes_to_device;
  into.bytes_from_device += from.bytes_from_device;
  if (!into.fault && from.fault) {
    into.fault = from.fault;
    into.fault_kernel = from.fault_kernel;
  }
  for (const HostDiagnostic& diagnostic : from.diagnostics) {
    if (into.diagnostics.size() < ShimReport::kMaxDiagnostics) {
      into.diagnostics.push_back(diagnostic);
    } else {
      ++into.diagnostics_dropped;
    }
  }
  into.diagnostics_dropped += from.diagnostics_dropped;
  into.approximate.insert(from.approximate.begin(), from.approximate.end());
  into.unsupported.insert(from.unsupported.begin(), from.unsupported.end());
}

bool receive(int fd, Request& request) {
  ssize_t got = 0;
  do {
    got = ::recv(fd, &request, sizeof request, MSG_TRUNC);
  } while (got < 0 && errno == EINTR);
  // A packet of any other size, or of another version, is not from our client: the connection ends.
  return got == static_cast<ssize_t>(sizeof request) && request.magic == kProtocolMagic &&
         request.version == kProtocolVersion;
}

/// The process that made the connection; the kernel says so, not the client.
pid_t peer_of(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 ? peer.pid : 0;
}

bool send(int fd, const Reply& reply, int descriptor) {
  iovec part{const_cast<Reply*>(&reply), sizeof reply};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(fd, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof reply);
}

}  // namespace

class ShimServer::State : public std::enable_shared_from_this<ShimServer::State> {
 public:
  State(DeviceBackend& backend, std::shared_ptr<DeviceOutput> output, ShimOptions options, base::TempDir folder,
        OwnedFd listener, OwnedFd wake_event)
      : backend_(backend),
        output_(std::move(output)),
        options_(std::move(options)),
        folder_(std::move(folder)),
        path_(folder_.path() / "socket"),
        listener_(std::move(listener)),
        wake_event_(std::move(wake_event)) {}

  void start() {
    accepting_ = std::thread([this] { accept_clients(); });
  }

  ShimReport stop(bool finish) {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      finish_ = finish;
      changed_.notify_all();
      // Connections see the end of their input after the requests that are already there.
      for (const Connection& connection : connections_) ::shutdown(connection.fd.get(), finish ? SHUT_RD : SHUT_RDWR);
      if (session_ != nullptr) finish ? session_->client_gone() : session_->abandon();
    }
    wake();
    if (accepting_.joinable()) accepting_.join();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return connections_.empty() && session_ == nullptr; });
    return total_;
  }

  ShimReport report() const {
    const std::lock_guard lock(mutex_);
    ShimReport all = total_;
    if (session_ != nullptr) merge(all, session_->report());
    return all;
  }

  void expect(pid_t process) {
    const std::lock_guard lock(mutex_);
    expected_ = process;
    changed_.notify_all();
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  struct Connection {
    OwnedFd fd;
  };

  /// Makes the accepting thread look at what it waits for again.
  void wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t ignored = ::write(wake_event_.get(), &one, sizeof one);
  }

  void accept_clients() {
    while (true) {
      int process = -1;
      {
        const std::lock_guard lock(mutex_);
        if (stopping_) return;
        process = process_fd_.get();
      }
      pollfd waits[3] = {{listener_.get(), POLLIN, 0}, {wake_event_.get(), POLLIN, 0}, {process, POLLIN, 0}};
      if (::poll(waits, 3, -1) < 0) {
        if (errno == EINTR) continue;
        return;
      }
      if (waits[1].revents != 0) {
        uint64_t count = 0;
        [[maybe_unused]] const ssize_t ignored = ::read(wake_event_.get(), &count, sizeof count);
      }
      if (process >= 0 && waits[2].revents != 0) {
        const std::lock_guard lock(mutex_);
        if (session_ != nullptr) session_->client_gone();
        process_fd_ = OwnedFd();
      }
      if (waits[0].revents == 0) continue;
      OwnedFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd) continue;
      const pid_t peer = peer_of(fd.get());
      const std::lock_guard lock(mutex_);
      // Strangers must not use up the connections either.
      if (stopping_ || peer <= 0 || (expected_ != 0 && peer != expected_)) continue;
      if (connections_.size() >= options_.max_connections) continue;
      connections_.push_back({std::move(fd)});
      const auto connection = std::prev(connections_.end());
      // The state must outlive the thread's last look at it.
      std::thread([self = shared_from_this(), connection] { self->serve(connection); }).detach();
    }
  }

  /// The first request of a connection: attaches it to the session of its process.
  std::shared_ptr<Session> attach(pid_t process) {
    std::unique_lock lock(mutex_);
    // A client may be faster than whoever started it.
    changed_.wait(lock, [&] { return stopping_ || (!ending_ && (expected_ != 0 || !options_.expects_client)); });
    if (options_.expects_client && process != expected_) return nullptr;
    // A process that has ended may not have been noticed yet when the next one comes.
    const auto other_has_ended = [&] {
      return session_ != nullptr && process_ != process && ::kill(process_, 0) != 0 && errno == ESRCH;
    };
    if (other_has_ended())
      changed_.wait_for(lock, std::chrono::seconds(10), [&] { return stopping_ || (session_ == nullptr && !ending_); });
    if (stopping_) return nullptr;
    if (session_ == nullptr) {
      session_ = std::make_shared<Session>(backend_, output_, options_, lost_error_);
      process_ = process;
      // A process that dies while its threads wait for the device is noticed through this.
      process_fd_ = OwnedFd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
      wake();
    } else if (process_ != process) {
      return nullptr;
    }
    ++attached_;
    return session_;
  }

  void detach() {
    std::shared_ptr<Session> ended;
    bool finish = true;
    {
      const std::lock_guard lock(mutex_);
      if (--attached_ != 0) return;
      ended = session_;
      ending_ = true;
      finish = finish_;
    }
    ended->close(finish);
    const std::lock_guard lock(mutex_);
    merge(total_, ended->report());
    if (lost_error_ == 0) lost_error_ = ended->lost();
    session_ = nullptr;
    process_fd_ = OwnedFd();
    ending_ = false;
    changed_.notify_all();
  }

  void serve(std::list<Connection>::iterator connection) {
    const int fd = connection->fd.get();
    converse(fd);
    const std::lock_guard lock(mutex_);
    connections_.erase(connection);
    changed_.notify_all();
  }

  void converse(int fd) {
    const base::CpuScope scope(meter_);
    const pid_t peer = peer_of(fd);
    Request request;
    if (peer <= 0 || !receive(fd, request) || request.op != static_cast<uint16_t>(Op::hello)) {
      return;
    }
    const bool lasting = get_body<BytesBody>(request).kind == 1;
    Reply reply;
    reply.serial = request.serial;
    const std::shared_ptr<Session> session = attach(peer);
    if (session == nullptr) {
      reply.error = cuda_error::kInitialization;
      send(fd, reply, -1);
      return;
    }
    auto staging = SharedMemory::create(kStagingBytes);
    if (staging && staging->map()) {
      set_body(reply, HelloReply{emulator::kGlobalWindow, emulator::kGlobalWindowBytes, kStagingBytes,
                                 backend_.total_bytes()});
      reply.flags = kReplyHasDescriptor;
      Session::Connection mine{std::move(*staging), {}};
      if (send(fd, reply, mine.staging.fd())) {
        while (receive(fd, request)) {
          int descriptor = -1;
          const Reply answer = session->handle(request, mine, descriptor);
          if (!send(fd, answer, descriptor)) break;
        }
      }
      session->release(mine);
      if (lasting) session->client_gone();
    }
    detach();
  }

  base::CpuMeter* const meter_ = base::CpuMeter::current();  ///< of whoever started the server, and will stop it
  DeviceBackend& backend_;
  std::shared_ptr<DeviceOutput> output_;
  ShimOptions options_;
  base::TempDir folder_;
  std::filesystem::path path_;
  OwnedFd listener_, wake_event_;
  std::thread accepting_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Connection> connections_;
  std::shared_ptr<Session> session_;
  pid_t process_ = 0, expected_ = 0;
  OwnedFd process_fd_;
  unsigned attached_ = 0;
  bool stopping_ = false, finish_ = true, ending_ = false;
  int lost_error_ = 0;
  ShimReport total_;
};

Result<std::unique_ptr<ShimServer>> ShimServer::start(DeviceBackend& backend, std::shared_ptr<DeviceOutput> output,
                                                      ShimOptions options) {
  auto folder = base::TempDir::create("ptxbench-device");
  if (!folder) return tl::unexpected<Error>(folder.error());
  const std::string path = (folder->path() / "socket").string();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return infrastructure_error("the socket path {} is too long; set TMPDIR to a shorter folder", path);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  OwnedFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  OwnedFd wake_event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!listener || !wake_event ||
      ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.get(), 64) != 0) {
    return infrastructure_error("cannot listen on {}: {}", path, std::strerror(errno));
  }
  auto state = std::make_shared<State>(backend, std::move(output), std::move(options), std::move(*folder),
                                       std::move(listener), std::move(wake_event));
  state->start();
  return std::unique_ptr<ShimServer>(new ShimServer(std::move(state)));
}

ShimServer::ShimServer(std::shared_ptr<State> state) : state_(std::move(state)) {}

ShimServer::~ShimServer() { state_->stop(false); }

const std::filesystem::path& ShimServer::socket_path() const { return state_->path(); }

void ShimServer::expect(pid_t process) { state_->expect(process); }

ShimReport ShimServer::stop(bool finish) { return state_->stop(finish); }

ShimReport ShimServer::report() const { return state_->report(); }

}  // namespace ptxbench::cuda_shim
