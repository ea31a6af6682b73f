import Glibc

/// Makes a connection what it is when the machine at its other end has lost its power.
///
/// A socket filter that takes nothing drops each segment before TCP sees it, so nothing is acknowledged or refused, and
/// no data and no end arrives. It needs no privilege. A process that ends closes its sockets, and a closed socket says
/// so (FIN) or is unknown (RST), hence it lasts as long as the process does; where the system lets it (TCP_REPAIR, for
/// CAP_NET_ADMIN), the sockets then go without a word.
enum DeadPeer {
  /// "linux/filter.h": struct sock_filter. `BPF_RET | BPF_K` with 0 bytes: the packet is dropped.
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

  /// - Returns: Whether it could be done.
  @discardableResult
  static func silence(_ descriptor: Int32) -> Bool {
    var instruction = unsafe Instruction()
    let isAttached = unsafe withUnsafeMutablePointer(to: &instruction) { instruction in
      var filter = unsafe Filter(count: 1, instructions: instruction)
      return unsafe setsockopt(
        descriptor, SOL_SOCKET, attachFilter, &filter, socklen_t(MemoryLayout<Filter>.size)) == 0
    }
    // A dead machine does not ask whether the other side still lives.
    set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 0)
    set(descriptor, Int32(IPPROTO_TCP), repair, 1)
    return isAttached
  }

  private static func set(_ descriptor: Int32, _ level: Int32, _ option: Int32, _ value: Int32) {
    var value = value
    _ = unsafe setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
  }

  /// Does nothing at all until one of `signals` comes, or whoever started the process has gone; says which.
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
