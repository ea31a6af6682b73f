// Both modules, because a socket structure or constant counts as a member of whichever the compiler read first.
import CUV
import Glibc

/// An IPv4 or IPv6 address and a port.
package struct SocketAddress: Hashable, Sendable {
  package enum Family: UInt8, Sendable {
    case ipv4, ipv6
  }

  package let family: Family
  package let port: UInt16
  /// The address as one big-endian number; an IPv4 address is in the lowest 32 bits.
  private let high: UInt64
  private let low: UInt64
  /// The interface of a link-local IPv6 address, otherwise 0.
  private let scope: UInt32

  private init(family: Family, port: UInt16, high: UInt64, low: UInt64, scope: UInt32 = 0) {
    self.family = family
    self.port = port
    self.high = high
    self.low = low
    self.scope = scope
  }

  /// The address as a big-endian number of two halves; an IPv4 address is in the lowest 32 bits.
  package var number: (high: UInt64, low: UInt64) { (high, low) }

  /// Whether it stands for every address of this machine.
  package var isAny: Bool { high == 0 && low == 0 }

  /// Every IPv4 address of this machine.
  package static func anyIPv4(port: UInt16) -> SocketAddress {
    SocketAddress(family: .ipv4, port: port, high: 0, low: 0)
  }

  /// Every IPv6 address of this machine. `Listener` accepts no IPv4 connections on it; bind `anyIPv4` beside it.
  package static func anyIPv6(port: UInt16) -> SocketAddress {
    SocketAddress(family: .ipv6, port: port, high: 0, low: 0)
  }

  /// 127.0.0.1
  package static func loopbackIPv4(port: UInt16) -> SocketAddress {
    SocketAddress(family: .ipv4, port: port, high: 0, low: 0x7F00_0001)
  }

  /// ::1
  package static func loopbackIPv6(port: UInt16) -> SocketAddress {
    SocketAddress(family: .ipv6, port: port, high: 0, low: 1)
  }

  /// The address that a number says.
  package static func ipv4(_ number: UInt32, port: UInt16) -> SocketAddress {
    SocketAddress(family: .ipv4, port: port, high: 0, low: UInt64(number))
  }

  /// The address that two halves of a big-endian number say.
  package static func ipv6(high: UInt64, low: UInt64, port: UInt16) -> SocketAddress {
    SocketAddress(family: .ipv6, port: port, high: high, low: low)
  }

  /// Whether both are of one family, and their first `bitCount` bits are equal. The ports do not matter.
  func shares(firstBits bitCount: Int, with other: SocketAddress) -> Bool {
    guard family == other.family else { return false }
    let difference = UInt128(high ^ other.high) << 64 | UInt128(low ^ other.low)
    return difference >> ((family == .ipv4 ? 32 : 128) - bitCount) == 0
  }

  /// Whether it is 127.0.0.1 or ::1, which other machines cannot reach.
  package var isThisMachine: Bool {
    self == .loopbackIPv4(port: port) || self == .loopbackIPv6(port: port)
  }

  /// Whether it means every address of this machine.
  package var isEverywhere: Bool { self == .anyIPv4(port: port) || self == .anyIPv6(port: port) }

  /// Where this machine reaches a listener at the address.
  package var onThisMachine: SocketAddress {
    guard isEverywhere else { return self }
    return family == .ipv4 ? .loopbackIPv4(port: port) : .loopbackIPv6(port: port)
  }

  /// The same address with another port.
  package func with(port: UInt16) -> SocketAddress {
    SocketAddress(family: family, port: port, high: high, low: low, scope: scope)
  }

  /// The peer's site, for limits: an IPv4 address, or the /64 of an IPv6 one, which one site controls. Port 0.
  package var site: SocketAddress {
    SocketAddress(family: family, port: 0, high: high, low: family == .ipv4 ? low : 0)
  }

  /// The site as numbers: equal for two addresses if their sites are.
  package var siteNumbers: (high: UInt64, low: UInt64) {
    family == .ipv4 ? (0, low) : (high, 0)
  }

  /// The IPv4 address of a peer on an IPv6 socket that accepts both families (RFC 4291, section 2.5.5.2); any other
  /// address unchanged. Limits would otherwise treat all IPv4 peers as one site.
  package var unmapped: SocketAddress {
    guard family == .ipv6, high == 0, low >> 32 == 0xFFFF else { return self }
    return SocketAddress(family: .ipv4, port: port, high: 0, low: low & 0xFFFF_FFFF)
  }

  /// The address without its port.
  package var hostText: String {
    let text = description
    let host = text[..<(text.lastIndex(of: ":") ?? text.endIndex)]
    return String(family == .ipv4 ? host : host.dropFirst().dropLast())
  }
}

// MARK: Text

extension SocketAddress {
  /// Reads `192.0.2.1:2197`, `[2001:db8::1]:2197`, `[fe80::1%eth0]:2197` or `*:2197`, which is `[::]:2197`.
  ///
  /// Port 0 lets the system choose. Use `resolve` for host names.
  package init(_ text: String) throws(SocketError) {
    guard let colon = text.utf8.lastIndex(of: UInt8(ascii: ":")),
      let port = Self.port(text[text.index(after: colon)...])
    else { throw .invalidAddress(text) }
    var host = text[..<colon]
    if host == "*" {
      self = .anyIPv6(port: port)
    } else if host.hasPrefix("["), host.hasSuffix("]") {
      host = host.dropFirst().dropLast()
      guard let address = Self.ipv6(host, port: port) else { throw .invalidAddress(text) }
      self = address
    } else {
      var parsed = in_addr()
      guard unsafe inet_pton(AF_INET, String(host), &parsed) == 1 else {
        throw .invalidAddress(text)
      }
      let number = UInt64(UInt32(bigEndian: parsed.s_addr))
      self.init(family: .ipv4, port: port, high: 0, low: number)
    }
  }

  private static func port(_ digits: Substring) -> UInt16? {
    // `UInt16.init` accepts a sign.
    guard digits.utf8.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }) else {
      return nil
    }
    return UInt16(digits)
  }

  private static func index(of interface: Substring) -> UInt32 {
    unsafe if_nametoindex(String(interface))
  }

  private static func ipv6(_ host: Substring, port: UInt16) -> SocketAddress? {
    let parts = host.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false)
    var parsed = in6_addr()
    guard unsafe inet_pton(AF_INET6, String(parts[0]), &parsed) == 1 else { return nil }
    var scope: UInt32 = 0
    if parts.count == 2 {
      scope = UInt32(parts[1]) ?? index(of: parts[1])
      guard scope != 0 else { return nil }
    }
    let (high, low) = words(parsed)
    return SocketAddress(family: .ipv6, port: port, high: high, low: low, scope: scope)
  }
}

extension SocketAddress: CustomStringConvertible {
  package var description: String {
    switch family {
    case .ipv4:
      "\(low >> 24 & 255).\(low >> 16 & 255).\(low >> 8 & 255).\(low & 255):\(port)"
    case .ipv6:
      scope == 0 ? "[\(ipv6Text)]:\(port)" : "[\(ipv6Text)%\(scope)]:\(port)"
    }
  }

  private var ipv6Text: String {
    var address = Self.ipv6(high: high, low: low)
    return unsafe withUnsafeTemporaryAllocation(
      of: CChar.self, capacity: Int(INET6_ADDRSTRLEN)
    ) { buffer in
      guard let base = buffer.baseAddress,
        unsafe inet_ntop(AF_INET6, &address, base, socklen_t(INET6_ADDRSTRLEN)) != nil
      else { return "" }
      return unsafe String(cString: base)
    }
  }
}

// MARK: C

extension SocketAddress {
  /// Nil for a family that is neither IPv4 nor IPv6.
  init?(_ pointer: UnsafePointer<sockaddr>) {
    let raw = unsafe UnsafeRawPointer(pointer)
    switch unsafe Int32(pointer.pointee.sa_family) {
    case AF_INET:
      let address = unsafe raw.loadUnaligned(as: sockaddr_in.self)
      self.init(
        family: .ipv4, port: UInt16(bigEndian: address.sin_port), high: 0,
        low: UInt64(UInt32(bigEndian: address.sin_addr.s_addr)))
    case AF_INET6:
      let address = unsafe raw.loadUnaligned(as: sockaddr_in6.self)
      let (high, low) = Self.words(address.sin6_addr)
      self.init(
        family: .ipv6, port: UInt16(bigEndian: address.sin6_port), high: high, low: low,
        scope: address.sin6_scope_id)
    default: return nil
    }
  }

  /// Calls `call` (`getsockname` or similar) for an address.
  init?(_ call: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32) {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let address = unsafe withUnsafeMutablePointer(to: &storage) { storage -> SocketAddress? in
      let pointer = unsafe UnsafeMutableRawPointer(storage).assumingMemoryBound(to: sockaddr.self)
      guard unsafe call(pointer, &length) >= 0 else { return nil }
      return unsafe SocketAddress(pointer)
    }
    guard let address else { return nil }
    self = address
  }

  /// AF_INET or AF_INET6.
  var systemFamily: Int32 { family == .ipv4 ? AF_INET : AF_INET6 }

  func withSystemAddress<Result>(
    _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
  ) -> Result {
    switch family {
    case .ipv4:
      var address = sockaddr_in()
      address.sin_family = sa_family_t(AF_INET)
      address.sin_port = port.bigEndian
      address.sin_addr.s_addr = UInt32(truncatingIfNeeded: low).bigEndian
      return unsafe Self.lend(&address, body)
    case .ipv6:
      var address = sockaddr_in6()
      address.sin6_family = sa_family_t(AF_INET6)
      address.sin6_port = port.bigEndian
      address.sin6_addr = Self.ipv6(high: high, low: low)
      address.sin6_scope_id = scope
      return unsafe Self.lend(&address, body)
    }
  }

  private static func lend<Address, Result>(
    _ address: inout Address, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
  ) -> Result {
    unsafe withUnsafePointer(to: &address) { pointer in
      let raw = unsafe UnsafeRawPointer(pointer).assumingMemoryBound(to: sockaddr.self)
      return unsafe body(raw, socklen_t(MemoryLayout<Address>.size))
    }
  }

  private static func words(_ address: in6_addr) -> (high: UInt64, low: UInt64) {
    unsafe withUnsafeBytes(of: address) { bytes in
      (
        unsafe UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
        unsafe UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
      )
    }
  }

  private static func ipv6(high: UInt64, low: UInt64) -> in6_addr {
    var address = in6_addr()
    unsafe withUnsafeMutableBytes(of: &address) { bytes in
      unsafe bytes.storeBytes(of: high.bigEndian, as: UInt64.self)
      unsafe bytes.storeBytes(of: low.bigEndian, toByteOffset: 8, as: UInt64.self)
    }
    return address
  }
}
