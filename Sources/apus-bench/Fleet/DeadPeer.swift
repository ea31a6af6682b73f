import Glibc

/// Makes a connection behave as if this machine had lost power.
///
/// A socket filter drops each segment before TCP sees it, so nothing is acknowledged or refused, and no data and no end
/// arrives. It needs no privilege. It lasts as long as the process: when the process ends, its closed sockets send FIN
/// or RST, unless the system allows TCP_REPAIR (CAP_NET_ADMIN), which closes them silently.
enum DeadPeer {
  /// `struct sock_filter` of linux/filter.h. `BPF_RET | BPF_K` with 0 bytes drops the packet.
  @unsafe private struct Instruction {
    var code: UInt16 = 0x06
    var jumpTrue: UInt8 = 0
    var jumpFalse: UInt8 = 0
    var operand: UInt32 = 0
  }

  /// struct sock_fprog
  @unsafe private struct Filter {
    var count: UInt16
    var instructions: UnsafeMutablePointer<Instruction>
  }

  private static let attachFilter: Int32 = 26
  private static let repair: Int32 = 19

  /// - Returns: Whether it succeeded.
  @discardableResult
  static func silence(_ descriptor: Int32) -> Bool {
    var instruction = unsafe Instruction()
    let isAttached = unsafe withUnsafeMutablePointer(to: &instruction) { instruction in
      var filter = unsafe Filter(count: 1, instructions: instruction)
      return unsafe setsockopt(
        descriptor, SOL_SOCKET, attachFilter, &filter, socklen_t(MemoryLayout<Filter>.size)) == 0
    }
    // A dead machine sends no keep-alive probes.
    set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 0)
    set(descriptor, Int32(IPPROTO_TCP), repair, 1)
    return isAttached
  }

  private static func set(_ descriptor: Int32, _ level: Int32, _ option: Int32, _ value: Int32) {
    var value = value
    _ = unsafe setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
  }

  /// Waits for one of `signals`, and returns it; nil if the parent process has ended.
  static func wait(for signals: [Int32]) -> Int32? {
    let parent = getppid()
    var set = sigset_t()
    unsafe sigemptyset(&set)
    for signal in signals { unsafe sigaddset(&set, signal) }
    unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
    var pause = timespec(tv_sec: 1, tv_nsec: 0)
    while getppid() == parent {
      let signal = unsafe sigtimedwait(&set, nil, &pause)
      if signal > 0 { return signal }
    }
    return nil
  }
}
