import ApusLoop
package import ApusModel
import ApusTrust

/// A device that the courier has accepted.
package final class ConnectedDevice {
  package let device: TestDevice
  package let client: RawCourierClient
  /// The connect response.
  package let response: RawCourierFrame
  package let baseToken: [UInt8]

  /// Sends the connect message on a connection after its handshake.
  package init(_ client: RawCourierClient, _ device: TestDevice, token: [UInt8]? = nil) throws {
    self.client = client
    self.device = device
    try client.send(Self.connectMessage(token: token))
    response = try client.expect(0x08)
    guard response[1] == [0], let token = response[3] else {
      throw RawFault.unexpected("the device was not accepted: \(response)")
    }
    baseToken = token
  }

  /// The usual connect message: state 1, flags 0x41.
  package static func connectMessage(token: [UInt8]? = nil) -> RawCourierFrame {
    var frame = RawCourierFrame(0x07, (2, [1]), (5, [0, 0, 0, 0x41]))
    if let token { frame.fields.insert(.init(1, token), at: 0) }
    return frame
  }

  // MARK: Filter

  /// Sends a filter with these lists (2 enabled, 3 ignored, 4 opportunistic, 5 paused, 6 non-waking).
  package func filter(_ lists: [(list: UInt8, topic: String)]) throws {
    var frame = RawCourierFrame(0x09, (1, baseToken))
    frame.fields += lists.map { .init($0.list, Self.hash($0.topic)) }
    try client.send(frame)
  }

  /// Enables `topics` and waits for the answer, for a device without stored notifications.
  package func enable(_ topics: String...) throws {
    try filter(topics.map { (2, $0) })
    _ = try client.expect(0x0e)
  }

  /// Waits until everything sent before has been processed.
  ///
  /// A filter that opens topics is answered when it is written, which may be before or after the answer to this.
  package func settle() throws {
    try client.send(RawCourierFrame(0x0f, (1, [0, 0])))
    let what = "a frame of command 16"
    while true {
      guard let frame = try client.nextFrame(awaiting: what) else {
        throw RawFault.ended(client.tls.end ?? .endOfStream, awaiting: what)
      }
      if frame.command == 0x10 { return }
      guard frame.command == 0x0e else {
        throw RawFault.unexpected("received \(frame) instead of \(what)")
      }
    }
  }

  package static func hash(_ topic: String) -> [UInt8] { SHA1Digest.of(Array(topic.utf8).span) }

  // MARK: Tokens

  /// The answer to a request for an app's token.
  package func requestToken(_ topic: String) throws -> RawCourierFrame {
    try client.send(
      RawCourierFrame(0x11, (1, baseToken), (2, Self.hash(topic)), (3, [0, 0])))
    return try client.expect(0x12)
  }

  /// An app's token in hexadecimal digits, as the app gives it to its provider.
  package func token(_ topic: String = TestDirectory.topic) throws -> String {
    let answer = try requestToken(topic)
    guard answer[1] == [0], let bytes = answer[2], let token = DeviceToken(bytes: bytes.span)
    else { throw RawFault.unexpected("no token for \(topic): \(answer)") }
    return token.hex
  }

  // MARK: Notifications

  /// The next frame, which must be a notification.
  package func notification() throws -> RawCourierFrame { try client.expect(0x0a) }

  /// Acknowledges a notification; status 0 means accepted.
  package func acknowledge(_ notification: RawCourierFrame, status: UInt8 = 0) throws {
    try client.send(
      RawCourierFrame(0x0b, (1, baseToken), (4, notification[4] ?? []), (8, [status])))
  }
}

extension TestService {
  /// A new accepted device, under the service's own dialect.
  package func connect(
    _ device: TestDevice? = nil, _ environment: Environment = .production
  ) throws -> ConnectedDevice {
    let device = try device ?? directory.device()
    return try ConnectedDevice(courier(device, environment), device)
  }
}

extension TestDevice {
  /// The byte 0, Unix milliseconds, 8 random bytes.
  package static func nonce(secondsOff: Int64 = 0) -> [UInt8] {
    [0] + bigEndian(UInt64(EventLoop.wallClockMilliseconds() + secondsOff * 1000)) + randomBytes(8)
  }

  /// The connect message of `apns-security-v3`, which contains the certificate and signs a nonce.
  package func signedConnect(
    nonce: [UInt8] = nonce(), signature: [UInt8]? = nil
  ) throws -> RawCourierFrame {
    let signature = try signature ?? [1, 1] + key.signature(over: nonce.span, digest: .sha1)
    return RawCourierFrame(
      0x07, (2, [1]), (5, [0, 0, 0, 0x41]), (12, certificate.der), (13, nonce), (14, signature))
  }
}
