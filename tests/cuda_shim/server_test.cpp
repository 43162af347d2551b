// The server against clients that speak its protocol by hand, honest and hostile ones, with a fake device behind it.
#include "cuda_shim/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <numeric>
#include <random>
#include <thread>

#include "fake_backend.h"

namespace ptxbench::cuda_shim {
namespace {

using test::FakeBackend;
using ::testing::HasSubstr;

constexpr char kPtx[] = R"(
.version 9.0
.target sm_90a
.address_size 64
.visible .entry add_one(.param .u64 add_one_param_0, .param .u32 add_one_param_1) { ret; }
.visible .entry fails(.param .u64 fails_param_0) { ret; }
)";

class RawClient {
 public:
  static std::unique_ptr<RawClient> connect(const ShimServer& server, bool greet = true) {
    auto client = std::make_unique<RawClient>();
    client->fd_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s", server.socket_path().c_str());
    if (::connect(client->fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return nullptr;
    if (!greet) return client;
    int staging = -1;
    client->hello_ = client->call(Op::hello, BytesBody{}, &staging);
    if (client->hello_.error != 0) return client;
    client->staging_ =
        static_cast<std::byte*>(::mmap(nullptr, kStagingBytes, PROT_READ | PROT_WRITE, MAP_SHARED, staging, 0));
    EXPECT_EQ(::ftruncate(staging, 1), -1) << "the segment's size must be sealed";
    ::close(staging);
    return client;
  }
  ~RawClient() {
    if (fd_ >= 0) ::close(fd_);
    if (staging_ != nullptr) ::munmap(staging_, kStagingBytes);
  }
  int fd() const { return fd_; }
  std::byte* staging() const { return staging_; }
  const Reply& hello() const { return hello_; }

  /// `error` is -1 when the server ended the connection.
  template <class Body>
  Reply call(Op op, const Body& body, int* descriptor = nullptr) {
    Request request;
    request.op = static_cast<uint16_t>(op);
    request.serial = ++serial_;
    set_body(request, body);
    return exchange(request, descriptor);
  }
  Reply exchange(const Request& request, int* descriptor = nullptr) {
    Reply reply;
    reply.error = -1;
    if (::send(fd_, &request, sizeof request, MSG_NOSIGNAL) != sizeof request) return reply;
    iovec part{&reply, sizeof reply};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (::recvmsg(fd_, &message, MSG_CMSG_CLOEXEC) != sizeof reply) {
      reply.error = -1;
      return reply;
    }
    if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr) {
      int received = -1;
      std::memcpy(&received, CMSG_DATA(header), sizeof received);
      if (descriptor != nullptr) {
        *descriptor = received;
      } else {
        ::close(received);
      }
    }
    return reply;
  }
  uint64_t allocate(uint64_t bytes) { return get_body<AddressBody>(call(Op::allocate, BytesBody{bytes, 0})).address; }
  uint32_t stage(std::string_view text) {
    std::memcpy(staging_, text.data(), text.size());
    return static_cast<uint32_t>(text.size());
  }
  uint32_t load(std::string_view image, ImageKind kind = ImageKind::any) {
    stage(image);
    EXPECT_EQ(call(Op::append_image, BytesBody{image.size(), 0}).error, 0);
    const Reply reply = call(Op::load_image, BytesBody{image.size(), static_cast<uint64_t>(kind)});
    last_error_ = reply.error;
    return get_body<ModuleBody>(reply).module;
  }
  FunctionReply find(uint32_t module, std::string_view name) {
    const Reply reply = call(Op::find_function, ModuleBody{module, stage(name)});
    last_error_ = reply.error;
    return get_body<FunctionReply>(reply);
  }
  int last_error() const { return last_error_; }

 private:
  int fd_ = -1;
  std::byte* staging_ = nullptr;
  Reply hello_;
  uint64_t serial_ = 0;
  int last_error_ = 0;
};

class ShimServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    backend_ = FakeBackend::create();
    ASSERT_NE(backend_, nullptr);
    start({});
  }
  void start(ShimOptions options) {
    server_.reset();
    auto server = ShimServer::start(*backend_, output_, std::move(options));
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }
  std::unique_ptr<FakeBackend> backend_;
  std::shared_ptr<DeviceOutput> output_ = std::make_shared<DeviceOutput>();
  std::unique_ptr<ShimServer> server_;
};

TEST_F(ShimServerTest, CopiesThroughStaging) {
  auto client = RawClient::connect(*server_);
  const uint64_t address = client->allocate(1000);
  ASSERT_NE(address, 0u);
  for (int i = 0; i < 1000; ++i) client->staging()[i] = static_cast<std::byte>(i * 7);
  EXPECT_EQ(client->call(Op::copy_to_device, CopyBody{address, 0, 1000, 1, 0, 0, 0, 0}).error, 0);
  std::memset(client->staging(), 0, 1000);
  EXPECT_EQ(client->call(Op::copy_from_device, CopyBody{0, address, 1000, 1, 0, 0, 0, 1}).error, 0);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(client->staging()[i], static_cast<std::byte>(i * 7)) << i;
  client.reset();
  const ShimReport report = server_->stop();
  EXPECT_EQ(report.bytes_to_device, 1000u);
  EXPECT_EQ(report.bytes_from_device, 1000u);
  EXPECT_EQ(report.clients, 1u);
}

TEST_F(ShimServerTest, CopiesRowsWithPitch) {
  auto client = RawClient::connect(*server_);
  const uint64_t address = client->allocate(4 * 64);
  EXPECT_EQ(client->call(Op::fill, FillBody{address, 4 * 64, 1, 0, 0xee, 1, 0}).error, 0);
  for (int i = 0; i < 40; ++i) client->staging()[i] = static_cast<std::byte>(i);
  EXPECT_EQ(client->call(Op::copy_to_device, CopyBody{address, 0, 10, 4, 64, 0, 0, 0}).error, 0);
  EXPECT_EQ(client->call(Op::copy_from_device, CopyBody{0, address, 256, 1, 0, 0, 0, 1}).error, 0);
  for (int row = 0; row < 4; ++row) {
    for (int column = 0; column < 64; ++column) {
      const int expected = column < 10 ? row * 10 + column : 0xee;
      ASSERT_EQ(client->staging()[row * 64 + column], static_cast<std::byte>(expected)) << row << "," << column;
    }
  }
}

TEST_F(ShimServerTest, SnapshotsPageableCopiesAtTheCall) {
  auto client = RawClient::connect(*server_);
  const uint64_t address = client->allocate(16);
  const uint64_t stream = get_body<StreamBody>(client->call(Op::create_stream, StreamBody{0, 0, 1, 0})).stream;
  // The host function holds the stream, so the copy cannot have run yet when its source is overwritten.
  EXPECT_EQ(client->call(Op::host_function, HostFunctionBody{stream, 1, 0, 0}).error, 0);
  std::memset(client->staging(), 1, 16);
  EXPECT_EQ(client->call(Op::copy_to_device, CopyBody{address, 0, 16, 1, 0, 0, stream, 0}).error, 0);
  std::memset(client->staging(), 2, 16);
  auto helper = RawClient::connect(*server_);
  const Reply next = helper->call(Op::next_host_function, HostFunctionBody{});
  EXPECT_EQ(get_body<HostFunctionBody>(next).token, 1u);
  EXPECT_EQ(helper->call(Op::host_function_done, HostFunctionBody{0, 1, 0, 0}).error, 0);
  EXPECT_EQ(client->call(Op::copy_from_device, CopyBody{0, address, 16, 1, 0, 0, stream, 1}).error, 0);
  EXPECT_EQ(client->staging()[0], std::byte{1});
}

TEST_F(ShimServerTest, SharesPinnedMemoryAtTheSameAddress) {
  auto client = RawClient::connect(*server_);
  int descriptor = -1;
  const Reply reply =
      client->call(Op::allocate_shared, BytesBody{5000, static_cast<uint64_t>(SharedKind::pinned)}, &descriptor);
  ASSERT_EQ(reply.error, 0);
  const auto block = get_body<SharedReply>(reply);
  EXPECT_GE(block.address, emulator::kHostSharedBase);
  EXPECT_EQ(block.mapping_bytes, 8192u);
  // Here client and server are one process, which has the block mapped at its address already.
  auto* mine =
      static_cast<char*>(::mmap(nullptr, block.mapping_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0));
  ASSERT_NE(mine, MAP_FAILED);
  mine[4999] = 77;
  EXPECT_EQ(*reinterpret_cast<char*>(block.address + 4999), 77);
  EXPECT_EQ(::ftruncate(descriptor, 0), -1);
  ::close(descriptor);
  const auto info = get_body<PointerInfoReply>(client->call(Op::pointer_info, AddressBody{block.address + 10, 0, 0}));
  EXPECT_EQ(info.kind, PointerKind::pinned);
  EXPECT_EQ(info.begin, block.address);
  EXPECT_EQ(info.bytes, 5000u);
  EXPECT_EQ(client->call(Op::free_shared, AddressBody{block.address, 0, 0}).error, 0);
  EXPECT_EQ(client->call(Op::free_shared, AddressBody{block.address, 0, 0}).error, cuda_error::kInvalidValue);
  EXPECT_EQ(get_body<PointerInfoReply>(client->call(Op::pointer_info, AddressBody{block.address, 0, 0})).kind,
            PointerKind::unknown);
  ::munmap(mine, block.mapping_bytes);
}

TEST_F(ShimServerTest, LaunchesWithParameters) {
  backend_->define("add_one", [](const emulator::LaunchRequest& request) {
    uint64_t address = 0;
    uint32_t count = 0;
    std::memcpy(&address, request.parameters.data(), 8);
    std::memcpy(&count, request.parameters.data() + 8, 4);
    auto* values = reinterpret_cast<uint32_t*>(address);
    for (uint32_t i = 0; i < count; ++i) ++values[i];
    return std::nullopt;
  });
  auto client = RawClient::connect(*server_);
  const uint64_t address = client->allocate(40);
  EXPECT_EQ(client->call(Op::fill, FillBody{address, 10, 1, 0, 41, 4, 0}).error, 0);
  const uint32_t module = client->load(kPtx);
  const FunctionReply function = client->find(module, "add_one");
  ASSERT_EQ(client->last_error(), 0);
  ASSERT_EQ(function.parameter_count, 2u);
  EXPECT_EQ(function.parameter_bytes, 12u);
  const auto* layout = reinterpret_cast<const uint32_t*>(client->staging());
  EXPECT_EQ(std::vector<uint32_t>(layout, layout + 4), (std::vector<uint32_t>{0, 8, 8, 4}));
  const uint32_t count = 10;
  std::memcpy(client->staging(), &address, 8);
  std::memcpy(client->staging() + 8, &count, 4);
  LaunchBody launch;
  launch.function = function.function;
  for (int d = 0; d < 3; ++d) launch.grid[d] = launch.block[d] = 1;
  launch.parameter_bytes = 12;
  EXPECT_EQ(client->call(Op::launch, launch).error, 0);
  EXPECT_EQ(client->call(Op::copy_from_device, CopyBody{0, address, 40, 1, 0, 0, 0, 1}).error, 0);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(reinterpret_cast<const uint32_t*>(client->staging())[i], 42u);
  client.reset();
  const ShimReport report = server_->stop();
  EXPECT_EQ(report.launches, 1u);
  EXPECT_FALSE(report.fault);
}

TEST_F(ShimServerTest, RefusesBadLaunchesAndSaysWhy) {
  auto client = RawClient::connect(*server_);
  const FunctionReply function = client->find(client->load(kPtx), "fails");
  LaunchBody good;
  good.function = function.function;
  for (int d = 0; d < 3; ++d) good.grid[d] = good.block[d] = 1;
  good.parameter_bytes = 8;
  const auto launch = [&](auto change) {
    LaunchBody body = good;
    change(body);
    return client->call(Op::launch, body).error;
  };
  // Error numbers as an H200 gives them (data/api_probe_h200.txt).
  EXPECT_EQ(launch([](LaunchBody& b) { b.grid[0] = 0; }), 1);
  EXPECT_EQ(launch([](LaunchBody& b) { b.grid[1] = 65536; }), 1);
  EXPECT_EQ(launch([](LaunchBody& b) { b.block[0] = 1025; }), 1);
  EXPECT_EQ(launch([](LaunchBody& b) { b.block[2] = 65; }), 1);
  EXPECT_EQ(launch([](LaunchBody& b) { b.dynamic_shared_bytes = 49153; }), 1);
  EXPECT_EQ(launch([](LaunchBody& b) { b.cluster[0] = 2, b.cluster[1] = b.cluster[2] = 1; }), 912);
  EXPECT_EQ(launch([](LaunchBody& b) { b.grid[0] = 16, b.cluster[0] = 16, b.cluster[1] = b.cluster[2] = 1; }), 912);
  EXPECT_EQ(launch([](LaunchBody& b) { b.grid[0] = 132 * 64 + 1, b.block[0] = 32, b.flags = kLaunchCooperative; }),
            720);
  EXPECT_EQ(launch([](LaunchBody& b) { b.parameter_bytes = 4; }), 1);
  EXPECT_EQ(launch([](LaunchBody& b) { b.function = 12345; }), 400);
  EXPECT_EQ(launch([](LaunchBody& b) { b.stream = 12345; }), 400);
  EXPECT_EQ(client->call(Op::set_function_limits, FunctionLimitsBody{function.function, 232448, 0, 1}).error, 0);
  EXPECT_EQ(client->call(Op::set_function_limits, FunctionLimitsBody{function.function, 232449, 0, 1}).error, 1);
  EXPECT_EQ(launch([](LaunchBody& b) { b.dynamic_shared_bytes = 232448; }), 0);
  client.reset();
  const ShimReport report = server_->stop();
  EXPECT_EQ(report.launches, 1u);
  ASSERT_GE(report.diagnostics.size(), 8u);
  EXPECT_THAT(report.diagnostics[4].message, HasSubstr("49153 bytes of dynamic shared memory"));
  EXPECT_THAT(report.diagnostics[4].remedy, HasSubstr("cudaFuncAttributeMaxDynamicSharedMemorySize"));
}

TEST_F(ShimServerTest, FaultsAreStickyAndReported) {
  backend_->define("fails", [](const emulator::LaunchRequest&) {
    emulator::Fault fault;
    fault.rule = "memory.out-of-bounds";
    fault.message = "write 4 bytes behind the end";
    return std::optional(fault);
  });
  auto client = RawClient::connect(*server_);
  LaunchBody launch;
  launch.function = client->find(client->load(kPtx), "fails").function;
  for (int d = 0; d < 3; ++d) launch.grid[d] = launch.block[d] = 1;
  launch.parameter_bytes = 8;
  EXPECT_EQ(client->call(Op::launch, launch).error, 0);
  EXPECT_EQ(client->call(Op::device_synchronize, BytesBody{}).error, 700);
  EXPECT_EQ(client->call(Op::allocate, BytesBody{64, 0}).error, 700);
  EXPECT_EQ(client->call(Op::launch, launch).error, 700);
  EXPECT_EQ(client->call(Op::device_status, BytesBody{}).sticky, 700);
  client.reset();
  const ShimReport report = server_->stop();
  ASSERT_TRUE(report.fault);
  EXPECT_EQ(report.fault->rule, "memory.out-of-bounds");
  EXPECT_EQ(report.fault_kernel, "fails");
  EXPECT_EQ(report.launches, 1u);
}

TEST_F(ShimServerTest, RefusesImagesWithoutPtx) {
  auto client = RawClient::connect(*server_);
  client->load("\177ELF and the rest of a cubin");
  EXPECT_EQ(client->last_error(), cuda_error::kNoBinary);
  client->load("garbage");
  EXPECT_EQ(client->last_error(), cuda_error::kInvalidImage);
  client->find(99, "add_one");
  EXPECT_EQ(client->last_error(), cuda_error::kInvalidHandle);
  client->find(client->load(kPtx), "nope");
  EXPECT_EQ(client->last_error(), cuda_error::kNotFound);
  client.reset();
  const ShimReport report = server_->stop();
  ASSERT_FALSE(report.diagnostics.empty());
  EXPECT_THAT(report.diagnostics[0].message, HasSubstr("-gencode"));
}

TEST_F(ShimServerTest, DeviceOutputWaitsForTheClient) {
  auto client = RawClient::connect(*server_);
  output_->append("hello from the device\n");
  const Reply reply = client->call(Op::device_synchronize, BytesBody{});
  EXPECT_NE(reply.flags & kReplyOutputWaits, 0u);
  const auto bytes = get_body<BytesBody>(client->call(Op::fetch_output, BytesBody{})).bytes;
  EXPECT_EQ(std::string(reinterpret_cast<char*>(client->staging()), bytes), "hello from the device\n");
  EXPECT_EQ(client->call(Op::device_synchronize, BytesBody{}).flags & kReplyOutputWaits, 0u);
}

TEST_F(ShimServerTest, RefusesWhatThePolicyForbids) {
  ShimOptions options;
  options.may_write = [](uint64_t, uint64_t bytes) { return bytes <= 8; };
  start(std::move(options));
  auto client = RawClient::connect(*server_);
  const uint64_t address = client->allocate(64);
  EXPECT_EQ(client->call(Op::copy_to_device, CopyBody{address, 0, 8, 1, 0, 0, 0, 0}).error, 0);
  EXPECT_EQ(client->call(Op::copy_to_device, CopyBody{address, 0, 9, 1, 0, 0, 0, 0}).error, cuda_error::kNotSupported);
  EXPECT_EQ(client->call(Op::fill, FillBody{address, 64, 1, 0, 0, 1, 0}).error, cuda_error::kNotSupported);
}

TEST_F(ShimServerTest, ServesTheNextProcessAnEmptyDevice) {
  {
    auto client = RawClient::connect(*server_);
    client->allocate(1 << 20);
    EXPECT_EQ(client->call(Op::allocate_shared, BytesBody{4096, 0}).error, 0);
    EXPECT_GT(backend_->used_bytes(), 0u);
  }
  // The same process again: before the server has seen the end of the first connection it would only join it.
  for (int i = 0; i < 5000 && backend_->used_bytes() != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  auto client = RawClient::connect(*server_);
  EXPECT_EQ(client->hello().error, 0);
  EXPECT_EQ(backend_->used_bytes(), 0u);
  client.reset();
  EXPECT_EQ(server_->stop().clients, 2u);
}

TEST_F(ShimServerTest, OneProcessAtATime) {
  auto client = RawClient::connect(*server_);
  const pid_t child = ::fork();
  if (child == 0) {
    auto other = RawClient::connect(*server_);
    ::_exit(other != nullptr && other->hello().error == cuda_error::kInitialization ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(client->call(Op::device_synchronize, BytesBody{}).error, 0);
}

TEST_F(ShimServerTest, SurvivesClientsThatDie) {
  for (int round = 0; round < 5; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto client = RawClient::connect(*server_);
      client->allocate(4096);
      const uint64_t stream = get_body<StreamBody>(client->call(Op::create_stream, StreamBody{})).stream;
      client->call(Op::host_function, HostFunctionBody{stream, 1, 0, 0});
      // Dies in the middle of a request, with a stream that waits for it.
      Request request;
      request.op = static_cast<uint16_t>(Op::device_synchronize);
      if (::send(client->fd(), &request, sizeof request, 0) < 0) ::_exit(1);
      ::raise(SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    server_->stop(false);
    EXPECT_EQ(backend_->used_bytes(), 0u);
    start({});
  }
}

TEST_F(ShimServerTest, StopReleasesClientsThatWait) {
  auto client = RawClient::connect(*server_);
  EXPECT_EQ(client->call(Op::host_function, HostFunctionBody{0, 1, 0, 0}).error, 0);
  std::thread waiting([&] { client->call(Op::device_synchronize, BytesBody{}); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  server_->stop(false);
  waiting.join();
}

TEST_F(ShimServerTest, SurvivesPacketsOfAnySizeAndContent) {
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    auto client = RawClient::connect(*server_, round % 2 == 0);
    std::vector<char> packet(random() % 400);
    for (char& byte : packet) byte = static_cast<char>(random());
    if (round % 3 == 0 && packet.size() >= sizeof(Request)) {
      packet.resize(sizeof(Request));
      const Request valid;
      std::memcpy(packet.data(), &valid, 8);
    }
    static_cast<void>(::send(client->fd(), packet.data(), packet.size(), MSG_NOSIGNAL));
  }
  auto client = RawClient::connect(*server_);
  EXPECT_EQ(client->call(Op::device_synchronize, BytesBody{}).error, 0);
}

TEST_F(ShimServerTest, SurvivesValidRequestsWithRandomBodies) {
  std::mt19937_64 random(5);
  const uint64_t interesting[] = {0,
                                  1,
                                  2,
                                  16,
                                  17,
                                  4096,
                                  1ull << 20,
                                  1ull << 40,
                                  UINT64_MAX,
                                  UINT64_MAX - 4095,
                                  emulator::kGlobalWindow,
                                  emulator::kHostSharedBase,
                                  1ull << 63};
  for (int round = 0; round < 40; ++round) {
    auto client = RawClient::connect(*server_);
    const uint64_t block = client->allocate(4096);
    client->load(kPtx);
    client->find(1, "add_one");
    for (int i = 0; i < 150; ++i) {
      Request request;
      do {
        request.op = static_cast<uint16_t>(1 + random() % static_cast<unsigned>(Op::last_op));
        // Waits for functions that nobody queued would never end.
      } while (request.op == static_cast<uint16_t>(Op::next_host_function) ||
               request.op == static_cast<uint16_t>(Op::host_function));
      uint64_t words[kBodyBytes / 8];
      for (uint64_t& word : words) {
        switch (random() % 4) {
          case 0:
            word = random();
            break;
          case 1:
            word = interesting[random() % std::size(interesting)];
            break;
          case 2:
            word = block + random() % 4200;
            break;
          default:
            word = random() % 64 | (random() % 64) << 32;
            break;
        }
      }
      std::memcpy(request.body, words, sizeof words);
      const Reply reply = client->exchange(request);
      ASSERT_NE(reply.error, -1) << "the connection must survive a well-formed request, op " << request.op;
      ASSERT_EQ(reply.magic, kProtocolMagic);
    }
  }
  EXPECT_LE(server_->stop().diagnostics.size(), ShimReport::kMaxDiagnostics);
}

TEST_F(ShimServerTest, RefusesOtherVersions) {
  auto client = RawClient::connect(*server_);
  Request request;
  request.version = kProtocolVersion + 1;
  request.op = static_cast<uint16_t>(Op::device_synchronize);
  EXPECT_EQ(client->exchange(request).error, -1);
}

TEST_F(ShimServerTest, OnlyTheExpectedProcessIsServed) {
  ShimOptions options;
  options.expects_client = true;
  start(options);
  // Nobody is served before it is known who may be: this one waits, and gets in.
  std::thread naming([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    server_->expect(::getpid());
  });
  const auto first = RawClient::connect(*server_);
  naming.join();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->hello().error, 0);
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    const auto client = RawClient::connect(*server_, false);
    // Turned away without an answer, and without having used up a connection.
    const bool served = client != nullptr && client->call(Op::hello, BytesBody{}).error != -1;
    ::_exit(served ? 1 : 0);
  }
  int status = -1;
  ::waitpid(stranger, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_NE(first->allocate(64), 0u);

  start(options);
  const auto stopped_before = std::chrono::steady_clock::now();
  const auto unnamed = RawClient::connect(*server_, false);
  Request hello;
  hello.op = static_cast<uint16_t>(Op::hello);
  ASSERT_EQ(::send(unnamed->fd(), &hello, sizeof hello, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof hello));
  server_->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - stopped_before, std::chrono::seconds(5));
}

TEST_F(ShimServerTest, ManyThreadsOfOneProcess) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  auto keeper = RawClient::connect(*server_);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      auto client = RawClient::connect(*server_);
      const uint64_t stream = get_body<StreamBody>(client->call(Op::create_stream, StreamBody{})).stream;
      for (int i = 0; i < 30; ++i) {
        const uint64_t address = client->allocate(256);
        std::memset(client->staging(), t, 256);
        failures += client->call(Op::copy_to_device, CopyBody{address, 0, 256, 1, 0, 0, stream, 0}).error != 0;
        std::memset(client->staging(), 0xff, 256);
        failures += client->call(Op::copy_from_device, CopyBody{0, address, 256, 1, 0, 0, stream, 1}).error != 0;
        failures += client->staging()[255] != static_cast<std::byte>(t);
        failures += client->call(Op::free, AddressBody{address, 0, 0}).error != 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures.load(), 0);
}

}  // namespace
}  // namespace ptxbench::cuda_shim
