#include "base/gzip.h"

#include <zlib.h>

#include <new>
#include <stdexcept>

namespace ptxbench::base {

std::string gzip(std::string_view bytes, int level) {
  z_stream stream{};
  // 15 bits of window, and 16 for a gzip header.
  if (::deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK) throw std::bad_alloc();
  std::string out(::deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int code = ::deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  if (code != Z_STREAM_END) throw std::logic_error("deflate needs more room than it said");
  return out;
}

}  // namespace ptxbench::base
