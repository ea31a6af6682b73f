package import ApusModel

/// What a connection from one node to another is for: the first byte that the connecting node sends. The second is the
/// part of all devices about which the other node is to decide.
package enum LinkPurpose: UInt8, Sendable {
  /// Carries providers' notifications (``LinkedNotification``), and verdicts on them back (``LinkVerdict``).
  case notifications = 1
  /// Carries the connections of clients (``ClientFrame``). The number of the other node's worker that is to serve them
  /// follows (2, big-endian).
  case clients = 2
  /// Carries one request of the node's administration, and the answer to it (``LinkExchange``).
  case administration = 3
  /// Keeps a copy of the channels up to date (``ChannelFrame``). The part that the copy is for follows (1).
  case channels = 4
}

/// A client whose connection a node has accepted, and which another node serves: what that node has to know of it.
///
/// Layout, numbers big-endian: number of bytes that follow (2), listener (1, ``ListenerKind/index``), environment (1),
/// ordinal (1), family (1: 4 or 6), address (4 or 16), port (2), application protocol (1 for the length, then the
/// bytes), certificate (the rest, DER; empty for none). What comes behind it is what the client has sent.
package struct ForwardedPeer: Sendable, Equatable {
  package var listener: ListenerKind
  package var environment: Environment
  /// Which of the listeners of that kind and environment, from 0 on: binary ones may have different rules.
  package var ordinal: UInt8
  package var address: ProxiedAddress
  /// The one that the client negotiated (ALPN); empty for none.
  package var applicationProtocol: [UInt8]
  /// The client's, which the accepting node has verified; empty for none.
  package var certificateDER: [UInt8]

  package init(
    listener: ListenerKind, environment: Environment, ordinal: UInt8, address: ProxiedAddress,
    applicationProtocol: [UInt8], certificateDER: [UInt8]
  ) {
    self.listener = listener
    self.environment = environment
    self.ordinal = ordinal
    self.address = address
    self.applicationProtocol = applicationProtocol
    self.certificateDER = certificateDER
  }

  private static let headByteCount = 2

  /// The application protocol has at most 255 bytes and the certificate at most 65,000, as TLS and the listeners see
  /// to.
  package func encode(to output: inout [UInt8]) {
    let start = output.count
    output.append(bigEndian: UInt16(0))
    output.append(UInt8(listener.index))
    output.append(environment.rawValue)
    output.append(ordinal)
    switch address {
    case .ipv4(let number, let port):
      output.append(4)
      output.append(bigEndian: number)
      output.append(bigEndian: port)
    case .ipv6(let high, let low, let port):
      output.append(6)
      output.append(bigEndian: high)
      output.append(bigEndian: low)
      output.append(bigEndian: port)
    }
    output.append(UInt8(applicationProtocol.count))
    output += applicationProtocol
    output += certificateDER
    output.patch(
      bigEndian: UInt16(output.count - start - Self.headByteCount), at: start)
  }

  /// Reads the beginning of the content of ``ClientFrame/Kind/open``; nil if it is malformed.
  package static func read(_ bytes: Span<UInt8>) -> (peer: ForwardedPeer, byteCount: Int)? {
    guard bytes.count >= headByteCount else { return nil }
    let end = headByteCount + Int(bytes.bigEndianUInt16(at: 0))
    guard bytes.count >= end else { return nil }
    var reader = ByteReader(bytes.extracting(headByteCount..<end))
    guard let kind = reader.u8(),
      let environment = reader.u8().flatMap(Environment.init(rawValue:)),
      let listener = ListenerKind.allCases.first(where: { $0.index == Int(kind) }),
      listener != .link, let ordinal = reader.u8(), let address = address(&reader),
      let protocolLength = reader.u8(), let name = reader.take(Int(protocolLength)),
      let certificate = reader.take(reader.remaining)
    else { return nil }
    let peer = ForwardedPeer(
      listener: listener, environment: environment, ordinal: ordinal, address: address,
      applicationProtocol: name.copied(), certificateDER: certificate.copied())
    return (peer, end)
  }

  private static func address(_ reader: inout ByteReader) -> ProxiedAddress? {
    switch reader.u8() {
    case 4:
      guard let number = reader.u32(), let port = reader.u16() else { return nil }
      return .ipv4(number, port: port)
    case 6:
      guard let high = reader.u64(), let low = reader.u64(), let port = reader.u16() else {
        return nil
      }
      return .ipv6(high: high, low: low, port: port)
    default: return nil
    }
  }
}
