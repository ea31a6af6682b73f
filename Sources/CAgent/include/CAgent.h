#ifndef APUS_AGENT_H
#define APUS_AGENT_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/// A command that runs with the rights of one user and nothing else.
struct apus_command {
  /// The program's absolute path.
  const char *program;
  /// Both end with NULL.
  char *const *arguments;
  char *const *environment;
  const char *directory;
  /// Whether user and groups are set. False: those of this process stay.
  int changes_user;
  uid_t user;
  gid_t group;
  const gid_t *groups;
  int group_count;
  int input;
  /// Standard output and standard error.
  int output;
  /// A file opened with O_APPEND. The child writes `started` to it durably before it becomes the program, and
  /// `not_started` if it cannot; -1: nothing is written.
  int record;
  const char *started;
  const char *not_started;
};

/// Starts it, and waits until the program runs or cannot. Returns its process id, which is also its group and session;
/// or -1 and `errno`: then nothing runs.
pid_t apus_command_start(const struct apus_command *command);

/// pidfd_open(2): a descriptor that becomes readable at the end of a child, or -1.
int apus_process_descriptor(pid_t process);

/// SO_PEERCRED: 0, or -1 and `errno`.
int apus_peer(int socket, uid_t *user, pid_t *process);

/// accept4(2) with SOCK_CLOEXEC and SOCK_NONBLOCK.
int apus_accept(int socket);

/// The groups of a user from the system's databases; returns their number, or -1.
int apus_groups(const char *user, gid_t group, gid_t *groups, int capacity);

/// A timer that becomes readable when the clock of the machine is set or the machine wakes from suspend; -1: none.
int apus_clock_watch(void);
/// Arms it again. Returns 1 if the clock had jumped, else 0.
int apus_clock_rearm(int timer);

/// A netlink socket for changes of links, addresses and routes; -1: none.
int apus_network_watch(void);
/// Reads all waiting messages. Returns 1 if a link, an address or a route went away or a link came up, 0 for other
/// messages, -1 if there were none.
int apus_network_read(int socket);

#endif
