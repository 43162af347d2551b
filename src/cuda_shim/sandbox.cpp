#include "cuda_shim/sandbox.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
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

/// Of all that devices take by ioctl only what terminals and plain files know (type byte 'T'): no node of a GPU can be
/// used, whoever's descriptor it is. A filter can compare bits, not say "another type": it names each bit that differs.
int add_ioctl_rules(scmp_filter_ctx context) {
  const uint32_t denied = SCMP_ACT_ERRNO(EPERM);
  constexpr uint64_t kTerminal = 'T';
  int failed = 0;
  const auto deny = [&](uint64_t mask, uint64_t value) {
    const scmp_arg_cmp match = {1, SCMP_CMP_MASKED_EQ, mask, value};
    failed |= seccomp_rule_add_array(context, denied, SCMP_SYS(ioctl), 1, &match);
  };
  for (unsigned bit = 8; bit < 16; ++bit) {
    const uint64_t mask = uint64_t{1} << bit;
    deny(mask, ~(kTerminal << 8) & mask);
  }
  // These put words into the mouth of the user at the terminal.
  deny(0xffff'ffff, TIOCSTI);
  deny(0xffff'ffff, TIOCLINUX);
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
  failed |= add_ioctl_rules(context);
  // Memory that the limit on private memory does not count.
  for (const int call : {SCMP_SYS(shmget), SCMP_SYS(shmat), SCMP_SYS(msgget), SCMP_SYS(mq_open)})
    failed |= seccomp_rule_add(context, denied, call, 0);
  return failed;
}

/// For a candidate's host code: one process, and no memory besides its private one and what the device shares with it.
int add_candidate_rules(scmp_filter_ctx context) {
  const uint32_t denied = SCMP_ACT_ERRNO(EPERM);
  int failed = 0;
  const scmp_arg_cmp new_process = {0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0};
  failed |= seccomp_rule_add_array(context, denied, SCMP_SYS(clone), 1, &new_process);
  for (const int call : {SCMP_SYS(fork), SCMP_SYS(vfork), SCMP_SYS(memfd_create), SCMP_SYS(memfd_secret)})
    failed |= seccomp_rule_add(context, denied, call, 0);
  // Its flags lie in memory; the C library then makes threads with clone.
  failed |= seccomp_rule_add(context, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
  const uint64_t shared_anonymous = (MAP_SHARED & MAP_SHARED_VALIDATE) | MAP_ANONYMOUS;
  const scmp_arg_cmp shared = {3, SCMP_CMP_MASKED_EQ, shared_anonymous, shared_anonymous};
  failed |= seccomp_rule_add_array(context, denied, SCMP_SYS(mmap), 1, &shared);
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

/// Landlock's interface, which is younger than the C library's headers may be.
struct RulesetAttribute {
  uint64_t handled_access = 0;
};
struct [[gnu::packed]] PathRule {
  uint64_t allowed_access = 0;
  int32_t parent = -1;
};
constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;
constexpr uint64_t kExecute = 1 << 0, kReadFile = 1 << 2, kReadFolder = 1 << 3;
constexpr uint64_t kAllOfFirstVersion = (1 << 13) - 1;
constexpr int kRuleIsPath = 1;

/// Only system calls: also used in the child.
void allow_path(int ruleset, const char* path, bool folder) {
  const int at = ::open(path, O_PATH | O_CLOEXEC);
  if (at < 0) return;
  const PathRule rule{kExecute | kReadFile | (folder ? kReadFolder : 0), at};
  ::syscall(kAddRule, ruleset, kRuleIsPath, &rule, 0U);
  ::close(at);
}

void drop_capabilities() {
  for (unsigned long capability = 0; capability < 64; ++capability) ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2]{};
  ::syscall(SYS_capset, &header, none);
}

}  // namespace

bool restricts_files() {
  constexpr unsigned kVersion = 1;  // asks for the version instead of making rules
  return ::syscall(kCreateRuleset, nullptr, 0, kVersion) >= 1;
}

Result<Sandbox> Sandbox::prepare(const SandboxOptions& options) {
  Context context(seccomp_init(SCMP_ACT_ALLOW), seccomp_release);
  if (context == nullptr || add_rules(context.get(), options.sockets) != 0 ||
      (options.untrusted && add_untrusted_rules(context.get()) != 0) ||
      (options.candidate && add_candidate_rules(context.get()) != 0))
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
  if (options.readable && restricts_files()) {
    const RulesetAttribute attribute{kAllOfFirstVersion};
    sandbox.files_ = OwnedFd(static_cast<int>(::syscall(kCreateRuleset, &attribute, sizeof attribute, 0U)));
    if (!sandbox.files_) return infrastructure_error("cannot restrict files: {}", std::strerror(errno));
    for (const std::filesystem::path& path : *options.readable) {
      std::error_code ignored;
      allow_path(sandbox.files_.get(), path.c_str(), std::filesystem::is_directory(path, ignored));
    }
  }
  sandbox.data_bytes_ = options.data_bytes;
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
  if (files_) {
    allow_path(files_.get(), "/proc/self", true);
    if (::syscall(kRestrictSelf, files_.get(), 0U) != 0) return errno;
  }
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
