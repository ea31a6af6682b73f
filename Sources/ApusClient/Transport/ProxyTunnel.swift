import ApusWire

/// Asks an HTTP proxy for a tunnel. Bytes in, verdict out.
struct ProxyTunnel {
  enum Verdict: Equatable {
    case needsInput
    /// From now on the bytes come from the service.
    case open
    case refused(String)
  }

  /// RFC 9110, section 9.3.6.
  let request: [UInt8]
  private var answer: [UInt8] = []

  /// Limit for the header of the proxy's answer, in bytes; far above real answers.
  private static let answerBytes = 16_384

  init(to target: Endpoint, through proxy: ClientConfiguration.Proxy) {
    let name = target.description
    var text = "CONNECT \(name) HTTP/1.1\r\nHost: \(name)\r\n"
    if let user = proxy.user {
      let credentials = Array("\(user):\(proxy.password ?? "")".utf8)
      let encoded = String(decoding: Base64.encode(credentials.span), as: UTF8.self)
      text += "Proxy-Authorization: Basic \(encoded)\r\n"
    }
    request = Array((text + "\r\n").utf8)
  }

  /// Takes bytes from the proxy.
  mutating func receive(_ bytes: Span<UInt8>) -> Verdict {
    for index in bytes.indices { answer.append(bytes[index]) }
    while true {
      guard let end = headerEnd else {
        return answer.count < Self.answerBytes
          ? .needsInput : .refused("the header of the proxy's answer is too long")
      }
      guard let status else { return .refused("the proxy does not speak HTTP/1.1") }
      // An interim answer; the final one follows.
      if (100..<200).contains(status) {
        answer.removeFirst(end)
        continue
      }
      guard (200..<300).contains(status) else {
        return .refused(
          status == 407
            ? "the proxy wants other credentials (407)" : "the proxy refused the tunnel (\(status))"
        )
      }
      // The service speaks only after the client, so earlier bytes come from the proxy.
      return end == answer.count ? .open : .refused("the proxy sent data behind its answer")
    }
  }

  /// The index behind the empty line.
  private var headerEnd: Int? {
    let bytes = answer
    for index in bytes.indices.dropFirst(3)
    where bytes[index] == 0x0a && bytes[index - 1] == 0x0d && bytes[index - 2] == 0x0a
      && bytes[index - 3] == 0x0d
    {
      return index + 1
    }
    return nil
  }

  /// From `HTTP/1.1 200 …`; also accepts HTTP/1.0.
  private var status: Int? {
    let line = answer.prefix { $0 != 0x0d }
    guard line.starts(with: "HTTP/1.".utf8), line.count >= 12, line[8] == 0x20,
      line.count == 12 || line[12] == 0x20
    else { return nil }
    let digits = line[9..<12]
    // `Int.init` accepts a sign, which is not valid in a status.
    guard digits.allSatisfy({ $0 &- 0x30 < 10 }) else { return nil }
    return Int(String(decoding: digits, as: UTF8.self))
  }
}
