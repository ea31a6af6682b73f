internal import ApusModel

/// A substitute for TLS in simulations: the same exchange (hello, answer, data, close_notify) unencrypted, so that a
/// run does not depend on OpenSSL's randomness. No configuration of the service enables it.
///
/// A record is `kind:u8 length:u16 payload`. A client's hello contains the index of its certificate in `certificates`,
/// which both sides know, and the protocols that it offers; the server's contains the index of the chosen one in that
/// offer.
package struct PlainConfiguration: Sendable {
  package enum Role: Sendable {
    case server(demandsCertificate: Bool)
    /// `certificate` is an index into `certificates`.
    case client(certificate: Int?)
  }

  package var role: Role
  package var applicationProtocols: [String]
  /// In DER; at most 255.
  package var certificates: [[UInt8]]

  package init(role: Role, applicationProtocols: [String], certificates: [[UInt8]]) {
    precondition(certificates.count < Int(PlainSide.none), "an index must fit one byte")
    self.role = role
    self.applicationProtocols = applicationProtocols
    self.certificates = certificates
  }
}

/// One side of such an exchange; `TLSConnection` uses it in place of OpenSSL.
@safe final class PlainSide {
  enum Kind: UInt8 {
    case hello = 1
    case data
    case close
  }

  static let none: UInt8 = 255
  private static let headerBytes = 3

  private let configuration: PlainConfiguration
  private(set) var phase = OpenSSLSide.Phase.handshaking
  private(set) var protocolIndex: Int?
  private var certificate: Int?
  private var hasSpoken = false
  private var isClosed = false
  /// The part of a record received so far.
  private var partial: [UInt8] = []

  init(_ configuration: PlainConfiguration) { self.configuration = configuration }

  var peerCertificateDER: [UInt8]? { certificate.map { configuration.certificates[$0] } }

  var isWritable: Bool { !isClosed && (phase == .established || phase == .closedByPeer) }

  // MARK: Reading

  func read(_ buffers: TLSBuffers) -> TLSConnection.ReadResult {
    guard phase == .handshaking || phase == .established else {
      buffers.dropInput()
      return phase == .failed ? .failed(.protocolError("a bad record")) : .closedByPeer
    }
    buffers.takeInput(upTo: Self.headerBytes, into: &partial)
    guard partial.count >= Self.headerBytes else { return .needsInput }
    let length = Int(partial[1]) << 8 | Int(partial[2])
    buffers.takeInput(upTo: Self.headerBytes + length, into: &partial)
    guard partial.count == Self.headerBytes + length else { return .needsInput }
    defer { partial.removeAll(keepingCapacity: partial.capacity <= 4096) }
    switch (Kind(rawValue: partial[0]), phase) {
    case (.hello?, .handshaking): return hello(buffers)
    case (.data?, .established):
      let record = partial
      return unsafe .plaintext(buffers.setPlaintext(record.span.extracting(Self.headerBytes...)))
    case (.close?, _):
      phase = .closedByPeer
      buffers.dropInput()
      return .closedByPeer
    default: return fail("an unexpected record", buffers)
    }
  }

  private func hello(_ buffers: TLSBuffers) -> TLSConnection.ReadResult {
    guard case .server(let demandsCertificate) = configuration.role else {
      return answered(buffers)
    }
    guard partial.count > Self.headerBytes else { return fail("an empty hello", buffers) }
    if Int(partial[Self.headerBytes]) < configuration.certificates.count {
      certificate = Int(partial[Self.headerBytes])
    }
    guard certificate != nil || !demandsCertificate else { return fail("no certificate", buffers) }
    let offers = offers(partial[(Self.headerBytes + 1)...])
    var answer = Self.none
    for (index, name) in configuration.applicationProtocols.enumerated() {
      guard let offer = offers.firstIndex(of: name) else { continue }
      protocolIndex = index
      answer = UInt8(offer)
      break
    }
    append(.hello, [answer].span, buffers)
    phase = .established
    return .handshakeCompleted
  }

  private func answered(_ buffers: TLSBuffers) -> TLSConnection.ReadResult {
    guard partial.count == Self.headerBytes + 1 else { return fail("a bad answer", buffers) }
    let chosen = Int(partial[Self.headerBytes])
    if chosen < configuration.applicationProtocols.count { protocolIndex = chosen }
    phase = .established
    return .handshakeCompleted
  }

  private func offers(_ bytes: ArraySlice<UInt8>) -> [String] {
    var rest = bytes
    var names: [String] = []
    while let length = rest.popFirst(), rest.count >= Int(length) {
      names.append(String(decoding: rest.prefix(Int(length)), as: UTF8.self))
      rest = rest.dropFirst(Int(length))
    }
    return names
  }

  private func fail(_ reason: String, _ buffers: TLSBuffers) -> TLSConnection.ReadResult {
    phase = .failed
    buffers.dropInput()
    return .failed(.protocolError(reason))
  }

  // MARK: Writing

  func startHandshake(_ buffers: TLSBuffers) {
    guard !hasSpoken, case .client(let certificate) = configuration.role else { return }
    hasSpoken = true
    var hello = [certificate.map { UInt8($0) } ?? Self.none]
    for name in configuration.applicationProtocols {
      hello.append(UInt8(name.utf8.count))
      hello.append(contentsOf: name.utf8)
    }
    append(.hello, hello.span, buffers)
  }

  func write(_ plaintext: Span<UInt8>, _ buffers: TLSBuffers) {
    var offset = 0
    while offset < plaintext.count {
      let end = min(offset + TLSBuffers.recordBytes, plaintext.count)
      append(.data, plaintext.extracting(offset..<end), buffers)
      offset = end
    }
  }

  func close(_ buffers: TLSBuffers) {
    guard isWritable else { return }
    isClosed = true
    append(.close, Span(), buffers)
  }

  private func append(_ kind: Kind, _ payload: Span<UInt8>, _ buffers: TLSBuffers) {
    let length = payload.count
    let header = [
      kind.rawValue, UInt8(truncatingIfNeeded: length >> 8), UInt8(truncatingIfNeeded: length),
    ]
    buffers.appendOutput(header.span)
    buffers.appendOutput(payload)
  }
}
