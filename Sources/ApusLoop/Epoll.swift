import CUV
import Glibc

/// One epoll descriptor with room for the events of a turn, and, where other threads wake the loop by it, a descriptor
/// for that. Level-triggered.
@safe
struct Epoll: ~Copyable {
  /// Events taken in one turn. The kernel reports in rotation, so the remaining ones come first in the next turn.
  static let eventsPerTurn = 128

  /// The key of a wake-up; no socket has it.
  static let wakeKey = UInt64.max

  /// -1 once closed.
  private(set) var descriptor: Int32
  /// An eventfd that is always readable and is watched edge-triggered: nothing reads it, so a wake-up is one call. -1
  /// once closed, and if it wakes nobody.
  ///
  /// It replaces `uv_async_t`: in libuv 1.44 the woken loop waits until the waking thread has left `uv_async_send()`.
  /// If both share a processor, it waits until the other thread is scheduled again.
  private var wakeDescriptor: Int32
  private let events: UnsafeMutablePointer<epoll_event>

  /// Stops the program if the process has no descriptor left.
  ///
  /// - Parameter wakes: Whether `wake` is called.
  init(wakes: Bool) {
    descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
    check(descriptor < 0 ? -errno : 0, "epoll_create1")
    unsafe events = .allocate(capacity: Self.eventsPerTurn)
    wakeDescriptor = -1
    guard wakes else { return }
    wakeDescriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    check(wakeDescriptor < 0 ? -errno : 0, "eventfd")
    let code = cuv_epoll_control(
      descriptor, EPOLL_CTL_ADD, wakeDescriptor, EPOLLIN.rawValue | EPOLLET.rawValue, Self.wakeKey)
    check(code == 0 ? 0 : -errno, "epoll_ctl")
  }

  private init(none: ()) {
    descriptor = -1
    wakeDescriptor = -1
    unsafe events = .allocate(capacity: 0)
  }

  /// For a simulated loop.
  static func none() -> Epoll { Epoll(none: ()) }

  deinit {
    if descriptor >= 0 { Glibc.close(descriptor) }
    if wakeDescriptor >= 0 { Glibc.close(wakeDescriptor) }
    unsafe events.deallocate()
  }

  /// Stops watching and closes the descriptor, without waiting for the release of a loop that has ended.
  mutating func close() {
    guard descriptor >= 0 else { return }
    Glibc.close(descriptor)
    if wakeDescriptor >= 0 { Glibc.close(wakeDescriptor) }
    (descriptor, wakeDescriptor) = (-1, -1)
  }

  /// Makes the descriptor ready; from any thread, before `close()`.
  func wake() {
    // It fails only after 2^64 wake-ups, and the descriptor is ready then anyway.
    eventfd_write(wakeDescriptor, 1)
  }

  /// Starts watching. Returns the `errno`, or 0: ENOSPC and ENOMEM if the user or the machine may watch no more
  /// (`fs.epoll.max_user_watches`), EBADF and EPERM for descriptors that cannot be watched.
  func add(_ other: Int32, _ readiness: UInt32, key: UInt64) -> Int32 {
    cuv_epoll_control(descriptor, EPOLL_CTL_ADD, other, Self.mask(readiness), key) == 0
      ? 0 : errno
  }

  func change(_ other: Int32, _ readiness: UInt32, key: UInt64) {
    let code = cuv_epoll_control(
      descriptor, EPOLL_CTL_MOD, other, Self.mask(readiness), key)
    check(code == 0 ? 0 : -errno, "epoll_ctl")
  }

  /// Needed before a close too: the kernel forgets a descriptor only with its last copy, and a child process may have
  /// one.
  func remove(_ other: Int32) {
    _ = cuv_epoll_control(descriptor, EPOLL_CTL_DEL, other, 0, 0)
  }

  /// Fetches ready events, at most `limit` and at most `eventsPerTurn`; returns their number.
  func fetch(limit: Int) -> Int {
    let most = Int32(max(1, min(limit, Self.eventsPerTurn)))
    return Int(max(0, unsafe epoll_wait(descriptor, events, most, 0)))
  }

  /// An event of the last `fetch()`.
  func event(_ index: Int) -> (events: UInt32, key: UInt64) {
    unsafe (cuv_epoll_events(events + index), cuv_epoll_data(events + index))
  }

  /// The kernel reports errors and hang-ups in every turn even without interest; EPOLLONESHOT limits that to once.
  private static func mask(_ readiness: UInt32) -> UInt32 {
    if readiness == 0 { return EPOLLONESHOT.rawValue }
    return (readiness & Readiness.readable != 0 ? EPOLLIN.rawValue : 0)
      | (readiness & Readiness.writable != 0 ? EPOLLOUT.rawValue : 0)
  }
}

/// The readiness of a socket, or its owner's interest.
enum Readiness {
  static let readable: UInt32 = 1
  static let writable: UInt32 = 2
  static let both = readable | writable

  /// The readiness to report to an owner with this interest.
  ///
  /// An error is left for the next call on the socket, so it is reported as the readiness that the owner waits for. A
  /// hang-up may also come alone.
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
