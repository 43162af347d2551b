#include "cuda_shim/sandbox.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "cuda_shim/shared_memory.h"

namespace ptxbench::cuda_shim {
namespace {

using Context = std::unique_ptr<void, void (*)(scmp_filter_ctx)>;

int add_rules(scmp_filter_ctx context, bool sockets) {
  const uint32_t denied = SCMP_ACT_ERRNO(EPERM);
  int failed = 0;
  const auto deny = [&](int call) { failed |= seccomp_rule_add(context, denied, call, 0); };
  const auto deny_argument = [&](int call, unsigned argument, uint64_t value) {
    // The kernel looks at the low half only, so the upper half must not matter here either.
    const scmp_arg_cmp match = {argument, SCMP_CMP_MASKED_EQ, 0xffff'ffff, value};
    failed |= seccomp_rule_add_array(context, denied, call, 1, &match);
  };
  // Network: only Unix sockets, which is how the device is reached.
  const scmp_arg_cmp not_unix = {0, SCMP_CMP_NE, AF_UNIX, 0};
  failed |= seccomp_rule_add_array(context, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(socket), sockets ? 1 : 0, &not_unix);
  for (const int call :
       {SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter), SCMP_SYS(io_uring_register),
        // other processes
        SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev), SCMP_SYS(pidfd_getfd),
        SCMP_SYS(pidfd_send_signal), SCMP_SYS(kcmp), SCMP_SYS(tkill),
        // the machine
        SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(setns), SCMP_SYS(unshare),
        SCMP_SYS(bpf), SCMP_SYS(perf_event_open), SCMP_SYS(userfaultfd), SCMP_SYS(keyctl), SCMP_SYS(add_key),
        SCMP_SYS(request_key), SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(kexec_load), SCMP_SYS(reboot),
        SCMP_SYS(swapon), SCMP_SYS(swapoff)}) {
    deny(call);
  }
  // Signals to this process, its group, or everybody.
  const auto parent = static_cast<uint32_t>(::getpid());
  const auto parent_group = static_cast<uint32_t>(-::getpgrp());
  for (const uint32_t target : {parent, parent_group, static_cast<uint32_t>(-1)})
    deny_argument(SCMP_SYS(kill), 0, target);
  deny_argument(SCMP_SYS(tgkill), 0, parent);
  deny_argument(SCMP_SYS(rt_sigqueueinfo), 0, parent);
  deny_argument(SCMP_SYS(rt_tgsigqueueinfo), 0, parent);
  deny_argument(SCMP_SYS(prlimit64), 0, parent);
  return failed;
}

/// For code that has no business with files: paths can be opened for reading only and never changed, and no process
/// leaves the group that is ended together.
int add_untrusted_rules(scmp_filter_ctx context) {
  const uint32_t denied = SCMP_ACT_ERRNO(EPERM);
  int failed = 0;
  for (const int call :
       {SCMP_SYS(setsid), SCMP_SYS(setpgid), SCMP_SYS(unlink), SCMP_SYS(unlinkat), SCMP_SYS(rename), SCMP_SYS(renameat),
        SCMP_SYS(renameat2), SCMP_SYS(mkdir), SCMP_SYS(mkdirat), SCMP_SYS(rmdir), SCMP_SYS(link), SCMP_SYS(linkat),
        SCMP_SYS(symlink), SCMP_SYS(symlinkat), SCMP_SYS(chmod), SCMP_SYS(fchmodat), SCMP_SYS(chown), SCMP_SYS(lchown),
        SCMP_SYS(fchownat), SCMP_SYS(truncate), SCMP_SYS(mknod), SCMP_SYS(mknodat), SCMP_SYS(creat),
        SCMP_SYS(utimensat), SCMP_SYS(setxattr), SCMP_SYS(lsetxattr), SCMP_SYS(removexattr), SCMP_SYS(lremovexattr),
        // what works on a descriptor that was opened for reading, or leaves a file behind by itself
        SCMP_SYS(fchmod), SCMP_SYS(fchown), SCMP_SYS(fsetxattr), SCMP_SYS(fremovexattr), SCMP_SYS(utime),
        SCMP_SYS(utimes), SCMP_SYS(futimesat), SCMP_SYS(bind)}) {
    failed |= seccomp_rule_add(context, denied, call, 0);
  }
  // fchmodat2, setxattrat, removexattrat: younger than the headers may be.
  for (const int call : {452, 463, 466}) failed |= seccomp_rule_add(context, denied, call, 0);
  // Its flags lie in memory, where a filter cannot look.
  failed |= seccomp_rule_add(context, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(openat2), 0);
  const auto deny_flags = [&](uint64_t mask, uint64_t value) {
    const scmp_arg_cmp of_open = {1, SCMP_CMP_MASKED_EQ, mask, value};
    const scmp_arg_cmp of_openat = {2, SCMP_CMP_MASKED_EQ, mask, value};
    failed |= seccomp_rule_add_array(context, denied, SCMP_SYS(open), 1, &of_open);
    failed |= seccomp_rule_add_array(context, denied, SCMP_SYS(openat), 1, &of_openat);
  };
  deny_flags(O_ACCMODE, O_WRONLY);
  deny_flags(O_ACCMODE, O_RDWR);
  deny_flags(O_CREAT, O_CREAT);
  deny_flags(O_TRUNC, O_TRUNC);
  return failed;
}

bool write_text(const char* path, const char* text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const auto length = static_cast<ssize_t>(std::strlen(text));
  const bool written = ::write(fd, text, static_cast<std::size_t>(length)) == length;
  ::close(fd);
  return written;
}

/// A network name space of its own has no interfaces and no abstract Unix sockets of others. Where the system forbids
/// that, the socket filter alone keeps the network away.
void leave_network(int user, int group) {
  if (::unshare(CLONE_NEWNET) == 0) return;
  ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // else our own /proc files are root's
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return;
  char line[64];
  // snprintf with plain integers needs no locks or memory.
  std::snprintf(line, sizeof line, "%d %d 1", user, user);
  write_text("/proc/self/setgroups", "deny");
  write_text("/proc/self/uid_map", line);
  std::snprintf(line, sizeof line, "%d %d 1", group, group);
  write_text("/proc/self/gid_map", line);
}

void drop_capabilities() {
  for (unsigned long capability = 0; capability < 64; ++capability) ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2]{};
  ::syscall(SYS_capset, &header, none);
}

}  // namespace

Result<Sandbox> Sandbox::prepare(uint64_t data_bytes, bool untrusted, bool sockets) {
  Context context(seccomp_init(SCMP_ACT_ALLOW), seccomp_release);
  if (context == nullptr || add_rules(context.get(), sockets) != 0 ||
      (untrusted && add_untrusted_rules(context.get()) != 0))
    return infrastructure_error("cannot build the system call filter");
  OwnedFd file(::memfd_create("filter", MFD_CLOEXEC));
  if (!file || seccomp_export_bpf(context.get(), file.get()) != 0) {
    return infrastructure_error("cannot build the system call filter: {}", std::strerror(errno));
  }
  const off_t bytes = ::lseek(file.get(), 0, SEEK_END);
  Sandbox sandbox;
  static_assert(sizeof(sock_filter) == sizeof(uint64_t));
  sandbox.filter_.resize(static_cast<std::size_t>(bytes) / sizeof(uint64_t));
  if (bytes <= 0 || ::pread(file.get(), sandbox.filter_.data(), static_cast<std::size_t>(bytes), 0) != bytes) {
    return infrastructure_error("cannot read the system call filter back: {}", std::strerror(errno));
  }
  sandbox.data_bytes_ = data_bytes;
  sandbox.user_ = static_cast<int>(::getuid());
  sandbox.group_ = static_cast<int>(::getgid());
  return sandbox;
}

int Sandbox::enter() const {
  const rlimit data{data_bytes_, data_bytes_};
  if (::setrlimit(RLIMIT_DATA, &data) != 0) return errno;
  leave_network(user_, group_);
  drop_capabilities();
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  sock_fprog program{static_cast<unsigned short>(filter_.size()),
                     reinterpret_cast<sock_filter*>(const_cast<uint64_t*>(filter_.data()))};
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) return errno;
  return 0;
}

void protect_this_process() {
#if !defined(__SANITIZE_ADDRESS__)  // the leak checker traces its own process
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
}

}  // namespace ptxbench::cuda_shim
