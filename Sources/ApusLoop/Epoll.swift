import CUV
import Glibc

/// One epoll descriptor with room for the events of a turn, and what other threads wake the loop by. Level-triggered.
@safe
struct Epoll: ~Copyable {
  /// Events taken in one turn. What is ready beyond them comes first in the next: the kernel takes turns.
  static let eventsPerTurn = 128

  /// The key of a wake-up, which no socket has.
  static let wakeKey = UInt64.max

  /// -1 once closed.
  private(set) var descriptor: Int32
  /// An eventfd that is readable, and of which only the change is reported: nobody reads it, a wake-up is one call. -1
  /// once closed.
  ///
  /// In place of `uv_async_t`, as libuv 1.44 has the woken loop wait until the waking thread has left
  /// `uv_async_send()`. Where both share a processor, it waits for as long as the other thread is not scheduled.
  private var wakeDescriptor: Int32
  private let events: UnsafeMutablePointer<epoll_event>

  /// Stops the program when the process has no descriptor left.
  init() {
    descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
    check(descriptor < 0 ? -errno : 0, "epoll_create1")
    wakeDescriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    check(wakeDescriptor < 0 ? -errno : 0, "eventfd")
    unsafe events = .allocate(capacity: Self.eventsPerTurn)
    let code = cuv_epoll_control(
      descriptor, EPOLL_CTL_ADD, wakeDescriptor, EPOLLIN.rawValue | EPOLLET.rawValue, Self.wakeKey)
    check(code == 0 ? 0 : -errno, "epoll_ctl")
  }

  private init(none: ()) {
    descriptor = -1
    wakeDescriptor = -1
    unsafe events = .allocate(capacity: 0)
  }

  /// For a loop that is simulated.
  static func none() -> Epoll { Epoll(none: ()) }

  deinit {
    if descriptor >= 0 { Glibc.close(descriptor) }
    if wakeDescriptor >= 0 { Glibc.close(wakeDescriptor) }
    unsafe events.deallocate()
  }

  /// Watches nothing any more. The descriptor need not wait for whoever keeps a loop that has ended.
  mutating func close() {
    guard descriptor >= 0 else { return }
    Glibc.close(descriptor)
    Glibc.close(wakeDescriptor)
    (descriptor, wakeDescriptor) = (-1, -1)
  }

  /// Makes the descriptor ready; from any thread, before `close()`.
  func wake() {
    // It fails only where 2^64 wake-ups were counted, and then it is ready anyway.
    eventfd_write(wakeDescriptor, 1)
  }

  /// Begins to watch. The `errno`, or 0: ENOSPC and ENOMEM when the user or the machine may watch no more
  /// (`fs.epoll.max_user_watches`), EBADF and EPERM for what cannot be watched.
  func add(_ other: Int32, _ readiness: UInt32, key: UInt64) -> Int32 {
    cuv_epoll_control(descriptor, EPOLL_CTL_ADD, other, Self.mask(readiness), key) == 0
      ? 0 : errno
  }

  func change(_ other: Int32, _ readiness: UInt32, key: UInt64) {
    let code = cuv_epoll_control(
      descriptor, EPOLL_CTL_MOD, other, Self.mask(readiness), key)
    check(code == 0 ? 0 : -errno, "epoll_ctl")
  }

  /// Needed before a close too: the kernel itself forgets a descriptor only with the last copy of it, and a child
  /// process may have one.
  func remove(_ other: Int32) {
    _ = cuv_epoll_control(descriptor, EPOLL_CTL_DEL, other, 0, 0)
  }

  /// Fetches what is ready now. How many events there are.
  func fetch() -> Int {
    Int(max(0, unsafe epoll_wait(descriptor, events, Int32(Self.eventsPerTurn), 0)))
  }

  /// An event of the last `fetch()`.
  func event(_ index: Int) -> (events: UInt32, key: UInt64) {
    unsafe (cuv_epoll_events(events + index), cuv_epoll_data(events + index))
  }

  /// Errors and hang-ups are reported even to those who want nothing, in every turn; EPOLLONESHOT makes it once.
  private static func mask(_ readiness: UInt32) -> UInt32 {
    if readiness == 0 { return EPOLLONESHOT.rawValue }
    return (readiness & Readiness.readable != 0 ? EPOLLIN.rawValue : 0)
      | (readiness & Readiness.writable != 0 ? EPOLLOUT.rawValue : 0)
  }
}

/// What a socket is ready for, or its owner wants to hear of.
enum Readiness {
  static let readable: UInt32 = 1
  static let writable: UInt32 = 2
  static let both = readable | writable

  /// What to tell an owner with this interest.
  ///
  /// An error itself is for the next call on the socket to fetch: one that the owner was waiting to make. A hang-up may
  /// come by itself, too.
  static func heard(events: UInt32, interest: UInt32) -> UInt32 {
    if events & EPOLLERR.rawValue != 0 {
      return interest & readable != 0 ? readable : interest
    }
    let ready =
      (events & EPOLLIN.rawValue != 0 ? readable : 0)
      | (events & EPOLLOUT.rawValue != 0 ? writable : 0)
    return ready == 0 ? interest : ready & interest
  }
}
