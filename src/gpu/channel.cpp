#include "gpu/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

namespace ptxbench::gpu {

Result<std::pair<Channel, Channel>> Channel::make() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return infrastructure_error("cannot make a socket pair: {}", std::strerror(errno));
  cuda_shim::OwnedFd first(ends[0]), second(ends[1]);
  // A packet must fit the buffer of the socket.
  const int bytes = static_cast<int>(2 * kMaxMessage);
  for (const int end : ends) ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  return std::pair(Channel(std::move(first)), Channel(std::move(second)));
}

Result<void> Channel::send(const base::Json& json, const std::vector<int>& descriptors) const {
  const std::string text = json.dump(-1, ' ', false, base::Json::error_handler_t::replace);
  if (text.size() > kMaxMessage) return infrastructure_error("a message of {} bytes to the executor", text.size());
  iovec part{const_cast<char*>(text.data()), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))]{};
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size() * sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent != static_cast<ssize_t>(text.size()))
    return infrastructure_error("the executor is gone: {}", std::strerror(errno));
  return {};
}

Result<std::optional<Channel::Message>> Channel::receive(std::optional<std::chrono::milliseconds> time) const {
  pollfd wait{fd_.get(), POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&wait, 1, time ? static_cast<int>(time->count()) : -1);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) return std::optional<Message>();
  std::string text(kMaxMessage, '\0');
  iovec part{text.data(), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))]{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t got = 0;
  do {
    got = ::recvmsg(fd_.get(), &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  Message message;
  for (cmsghdr* one = CMSG_FIRSTHDR(&header); one != nullptr; one = CMSG_NXTHDR(&header, one)) {
    if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(one) + i * sizeof(int), sizeof fd);
      message.descriptors.emplace_back(fd);
    }
  }
  if (got <= 0) return infrastructure_error("the executor ended unexpectedly");
  if ((header.msg_flags & MSG_TRUNC) != 0) return infrastructure_error("a message that is too long");
  text.resize(static_cast<std::size_t>(got));
  auto json = base::parse_json(text, "a message of the executor");
  if (!json) return infrastructure_error("{}", json.error().message);
  message.json = std::move(*json);
  return std::optional<Message>(std::move(message));
}

}  // namespace ptxbench::gpu
