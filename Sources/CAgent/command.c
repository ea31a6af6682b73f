// Starting a command with the rights of one user. Between fork and exec only calls that are safe after a signal.

#define _GNU_SOURCE
#include "CAgent.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Capabilities survive a change between two users of whom neither is root, so they are given up by themselves.
static int drop_capabilities(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[2] = {{0}};
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 && errno != EINVAL) return -1;
  return (int)syscall(SYS_capset, &header, none);
}

static int become(const struct apus_command *command) {
  if (command->changes_user) {
    if (setgroups((size_t)command->group_count, command->groups) != 0) return -1;
    if (setresgid(command->group, command->group, command->group) != 0) return -1;
    if (setresuid(command->user, command->user, command->user) != 0) return -1;
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return drop_capabilities();
}

static int record(int file, const char *line) {
  if (file < 0) return 0;
  size_t length = strlen(line);
  // One call: lines of several processes do not mix in a file opened with O_APPEND.
  if (write(file, line, length) != (ssize_t)length) return -1;
  return fdatasync(file);
}

static void child(const struct apus_command *command, int report, const sigset_t *none) {
  struct sigaction standard;
  memset(&standard, 0, sizeof standard);
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; signal++) sigaction(signal, &standard, NULL);
  sigprocmask(SIG_SETMASK, none, NULL);

  int is_recorded = 0;
  int failure = 0;
  // Above the standard descriptors, so that none of the copies overwrites another.
  int input = fcntl(command->input, F_DUPFD_CLOEXEC, 10);
  int output = fcntl(command->output, F_DUPFD_CLOEXEC, 10);
  int file = command->record < 0 ? -1 : fcntl(command->record, F_DUPFD_CLOEXEC, 10);
  int status = fcntl(report, F_DUPFD_CLOEXEC, 10);
  if (input < 0 || output < 0 || status < 0 || (command->record >= 0 && file < 0)) goto failed;
  if (dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0) goto failed;
  // Everything else closes when the program starts.
  if (syscall(SYS_close_range, 3U, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */) != 0) goto failed;
  setsid();
  umask(022);
  if (become(command) != 0) goto failed;
  if (chdir(command->directory) != 0 && chdir("/") != 0) goto failed;
  if (record(file, command->started) != 0) goto failed;
  is_recorded = 1;
  execve(command->program, command->arguments, command->environment);
failed:
  failure = errno;
  if (is_recorded) record(file, command->not_started);
  (void)!write(status >= 0 ? status : report, &failure, sizeof failure);
  _exit(127);
}

pid_t apus_command_start(const struct apus_command *command) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return -1;
  // No signal may run a handler of this process in the child.
  sigset_t all, before, none;
  sigfillset(&all);
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t process = fork();
  if (process == 0) child(command, report[1], &none);
  int failure = errno;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  close(report[1]);
  if (process > 0) {
    ssize_t count;
    do {
      count = read(report[0], &failure, sizeof failure);
    } while (count < 0 && errno == EINTR);
    if (count == (ssize_t)sizeof failure) {
      while (waitpid(process, NULL, 0) < 0 && errno == EINTR) {
      }
      process = -1;
    }
  }
  close(report[0]);
  errno = failure;
  return process;
}

int apus_process_descriptor(pid_t process) { return (int)syscall(SYS_pidfd_open, process, 0); }

int apus_groups(const char *user, gid_t group, gid_t *groups, int capacity) {
  int count = capacity;
  return getgrouplist(user, group, groups, &count) < 0 ? -1 : count;
}
