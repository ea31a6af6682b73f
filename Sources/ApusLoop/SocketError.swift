import CUV

/// Why an operation on a socket, an address or a signal failed.
package enum SocketError: Error, Equatable, Sendable {
  /// A system call failed with this `errno`.
  case system(Operation, code: Int32, SocketAddress?)
  /// The text is not an address and a port.
  case invalidAddress(String)
  /// The host has no address; the reason is the resolver's.
  case unresolved(host: String, reason: String)
  /// The loop was stopped before.
  case loopStopped

  package enum Operation: String, Sendable {
    case open, configure, bind, listen, connect, watch
    case watchSignal = "watch a signal"
  }
}

extension SocketError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .system(let operation, let code, let address):
      let place = address.map { " \($0)" } ?? ""
      return "cannot \(operation.rawValue)\(place): \(errorText(code))"
    case .invalidAddress(let text):
      return
        "\"\(text)\" is not an address: write 192.0.2.1:2197, [2001:db8::1]:2197 or *:2197"
    case .unresolved(let host, let reason):
      return "cannot find the address of \"\(host)\": \(reason)"
    case .loopStopped:
      return "the event loop was stopped"
    }
  }
}

/// The system's text for an `errno`. Unlike `strerror`, safe on every thread.
package func errorText(_ code: Int32) -> String {
  unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 128) { buffer in
    guard let base = buffer.baseAddress else { return "error \(code)" }
    unsafe uv_strerror_r(-code, base, buffer.count)
    return unsafe String(cString: base)
  }
}
