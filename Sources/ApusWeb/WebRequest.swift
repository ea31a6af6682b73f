/// The peer of a connection.
package enum WebPeer: Sendable, Hashable {
  /// A local process on a UNIX socket, with its credentials from the kernel (SO_PEERCRED).
  case local(user: UInt32, process: Int32)
  /// An address as 4 or 16 bytes in network order, and its port.
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

  /// The text form of RFC 5952; of two equally long runs of zeros, the first is left out.
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

/// A name and its value, of a header field or a query parameter.
package struct WebField: Sendable, Hashable {
  package var name: String
  package var value: String

  package init(_ name: String, _ value: String) {
    self.name = name
    self.value = value
  }
}

/// The authenticated caller.
package struct WebCaller: Sendable, Hashable {
  package var name: String
  package var origin: String
  /// A set of rights, whose meaning the handler defines.
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
  /// The segments of the path, percent-decoded.
  package var segments: [String]
  package var query: [WebField]
  /// Names in lower case, in order of arrival.
  package var headers: [WebField]
  package var peer: WebPeer
  package var body: [UInt8]
  /// The caller, if the handler's `screen` has set it.
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

  /// The values of a header field; `name` must be in lower case.
  package func values(_ name: String) -> [String] {
    headers.filter { $0.name == name }.map(\.value)
  }
}

extension WebRequest {
  /// The segments of a path that begins with a slash; nil for invalid percent encoding or UTF-8. `/` has no segments,
  /// and a trailing slash adds an empty one.
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

  /// Percent-decoded text (RFC 3986, section 2.1).
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
      // No valid name contains NUL, and C libraries would end the text there.
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
