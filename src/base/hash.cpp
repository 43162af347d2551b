#include "base/hash.h"

#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace ptxbench::base {
namespace {

struct ContextDeleter {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_MD_CTX, ContextDeleter>;

Context start(const EVP_MD* algorithm) {
  Context context(EVP_MD_CTX_new());
  if (!context || EVP_DigestInit_ex(context.get(), algorithm, nullptr) != 1) {
    throw std::runtime_error("OpenSSL cannot start a message digest");
  }
  return context;
}

void feed(EVP_MD_CTX* context, const void* data, std::size_t size) {
  if (EVP_DigestUpdate(context, data, size) != 1) throw std::runtime_error("OpenSSL digest update failed");
}

std::string finish(EVP_MD_CTX* context) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  if (EVP_DigestFinal_ex(context, digest.data(), &length) != 1) throw std::runtime_error("OpenSSL digest failed");
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * static_cast<std::size_t>(length));
  for (unsigned int i = 0; i < length; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

}  // namespace

struct Sha256::State {
  Context context = start(EVP_sha256());
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::update(std::string_view bytes) {
  if (!state_) throw std::logic_error("Sha256 used after hex()");
  feed(state_->context.get(), bytes.data(), bytes.size());
  return *this;
}

Sha256& Sha256::update(std::span<const std::byte> bytes) {
  if (!state_) throw std::logic_error("Sha256 used after hex()");
  feed(state_->context.get(), bytes.data(), bytes.size());
  return *this;
}

Sha256& Sha256::update_field(std::string_view field) {
  std::array<char, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<char>((static_cast<std::uint64_t>(field.size()) >> (8 * i)) & 0xff);
  }
  update(std::string_view(length.data(), length.size()));
  return update(field);
}

std::string Sha256::hex() {
  if (!state_) throw std::logic_error("Sha256 used after hex()");
  std::string result = finish(state_->context.get());
  state_.reset();
  return result;
}

std::string sha256_hex(std::string_view bytes) { return Sha256().update(bytes).hex(); }

std::string sha1_hex(std::string_view bytes) {
  Context context = start(EVP_sha1());
  feed(context.get(), bytes.data(), bytes.size());
  return finish(context.get());
}

Result<std::string> sha256_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return input_error("cannot open {}: {}", path.string(), std::strerror(errno));
  Sha256 hash;
  std::array<char, 1 << 16> buffer{};
  while (file.read(buffer.data(), buffer.size()) || file.gcount() > 0) {
    hash.update(std::string_view(buffer.data(), static_cast<std::size_t>(file.gcount())));
  }
  if (file.bad()) return input_error("cannot read {}: {}", path.string(), std::strerror(errno));
  return hash.hex();
}

}  // namespace ptxbench::base
