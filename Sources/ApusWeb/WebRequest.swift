/// Who is at the other end of a connection.
package enum WebPeer: Sendable, Hashable {
  /// A process of this machine, over a UNIX socket; the kernel says whose (SO_PEERCRED).
  case local(user: UInt32, process: Int32)
  /// An address as 4 or 16 bytes in the order of the network, and its port.
  case address([UInt8], port: UInt16)

  /// `uid 1000`, `192.0.2.1:40000`, `[2001:db8::1]:40000`.
  package var text: String {
    switch self {
    case .local(let user, _): return "uid \(user)"
    case .address(let bytes, let port):
      guard bytes.count == 16 else {
        return bytes.map(String.init).joined(separator: ".") + ":\(port)"
      }
      return "[\(Self.groups(bytes))]:\(port)"
    }
  }

  /// RFC 5952 but for the run of zeros that it leaves out: of two as long the first one.
  private static func groups(_ bytes: [UInt8]) -> String {
    let groups = stride(from: 0, to: 16, by: 2).map {
      UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1])
    }
    var longest = 0..<0
    var start = 0
    while start < groups.count {
      var end = start
      while end < groups.count, groups[end] == 0 { end += 1 }
      if end - start > max(longest.count, 1) { longest = start..<end }
      start = max(end, start + 1)
    }
    func text(_ range: Range<Int>) -> String {
      groups[range].map { String($0, radix: 16) }.joined(separator: ":")
    }
    guard !longest.isEmpty else { return text(0..<8) }
    return text(0..<longest.lowerBound) + "::" + text(longest.upperBound..<8)
  }
}

/// A name with its value, of a header field or in a query.
package struct WebField: Sendable, Hashable {
  package var name: String
  package var value: String

  package init(_ name: String, _ value: String) {
    self.name = name
    self.value = value
  }
}

/// Who asks, as a handler knows them.
package struct WebCaller: Sendable, Hashable {
  package var name: String
  package var origin: String
  /// A set of rights; what they mean is the handler's matter.
  package var rights: UInt32

  package init(name: String, origin: String, rights: UInt32) {
    self.name = name
    self.origin = origin
    self.rights = rights
  }
}

/// A request as its handler sees it.
package struct WebRequest: Sendable {
  package var method: String
  /// What stands between the slashes of the path, percent signs decoded.
  package var segments: [String]
  package var query: [WebField]
  /// Names in lower case, in the order of their coming.
  package var headers: [WebField]
  package var peer: WebPeer
  package var body: [UInt8]
  /// Who asks, where the handler's `screen` has found that out.
  package var caller: WebCaller?

  package init(
    method: String, segments: [String], query: [WebField] = [], headers: [WebField] = [],
    peer: WebPeer, body: [UInt8] = []
  ) {
    self.method = method
    self.segments = segments
    self.query = query
    self.headers = headers
    self.peer = peer
    self.body = body
  }

  /// The values of a header field, its name in lower case.
  package func values(_ name: String) -> [String] {
    headers.filter { $0.name == name }.map(\.value)
  }
}

extension WebRequest {
  /// The segments of a path that begins with a slash; nil where a percent sign begins no byte, or the bytes are not
  /// UTF-8. `/` has none, and a slash at the end begins one more, which is empty.
  package static func segments(ofPath path: String) -> [String]? {
    guard path.utf8.first == 0x2f else { return nil }
    if path.utf8.count == 1 { return [] }
    var segments: [String] = []
    for part in path.dropFirst().split(separator: "/", omittingEmptySubsequences: false) {
      guard let text = decoded(String(part)) else { return nil }
      segments.append(text)
    }
    return segments
  }

  /// Text without its percent signs (RFC 3986, section 2.1).
  static func decoded(_ text: String) -> String? {
    var bytes: [UInt8] = []
    var rest = Array(text.utf8)[...]
    while let byte = rest.popFirst() {
      guard byte == 0x25 else {
        bytes.append(byte)
        continue
      }
      guard let high = rest.popFirst().flatMap(hexDigit),
        let low = rest.popFirst().flatMap(hexDigit)
      else { return nil }
      let value = high << 4 | low
      // No name has one, and libraries of C would end there.
      guard value != 0 else { return nil }
      bytes.append(value)
    }
    return String(validating: bytes, as: UTF8.self)
  }

  private static func hexDigit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case 0x30...0x39: byte - 0x30
    case 0x41...0x46: byte - 0x37
    case 0x61...0x66: byte - 0x57
    default: nil
    }
  }
}
