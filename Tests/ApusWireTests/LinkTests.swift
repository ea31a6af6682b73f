import ApusModel
import Testing

@testable import ApusWire

/// Frames by hand, from the layouts in the types' comments.
@Suite("What nodes say to each other")
struct LinkTests {
  // MARK: Clients

  private static let certificate: [UInt8] = [0x30, 0x03, 0x02, 0x01, 0x07]
  /// 19 bytes, the first courier in development, 192.0.2.7:56324, a protocol named "h2x".
  private static let device: [UInt8] =
    [0, 19, 1, 1, 0, 4, 192, 0, 2, 7, 0xdc, 0x04] + [3, 0x68, 0x32, 0x78] + certificate

  @Test("A client is described by its address, its protocol and its certificate")
  func client() {
    let peer = ForwardedPeer(
      listener: .courier, environment: .development, ordinal: 0,
      address: .ipv4(0xc000_0207, port: 56324), applicationProtocol: Array("h2x".utf8),
      certificateDER: Self.certificate)
    var bytes: [UInt8] = [0xee]
    peer.encode(to: &bytes)
    #expect(Array(bytes.dropFirst()) == Self.device)
    for count in 0..<Self.device.count {
      let part = Array(Self.device[..<count])
      #expect(ForwardedPeer.read(part.span) == nil, "\(count) bytes")
    }
    let more = Self.device + [0x07, 0, 0]
    let read = ForwardedPeer.read(more.span)
    #expect(read?.peer == peer && read?.byteCount == Self.device.count)
  }

  @Test("A client without protocol and certificate, by IPv6")
  func bare() {
    let bytes: [UInt8] =
      [0, 23, 3, 0, 2, 6] + [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]
      + [0x01, 0xbb, 0]
    let peer = ForwardedPeer(
      listener: .feedback, environment: .production, ordinal: 2,
      address: .ipv6(high: 0x2001_0db8_0000_0000, low: 7, port: 443), applicationProtocol: [],
      certificateDER: [])
    let read = ForwardedPeer.read(bytes.span)
    #expect(read?.peer == peer && read?.byteCount == bytes.count)
    var encoded: [UInt8] = []
    peer.encode(to: &encoded)
    #expect(encoded == bytes)
  }

  @Test(
    "A description that makes no sense is malformed",
    arguments: [
      // No listener 9; a link within a link; no environment 2; no family 5; no address; a protocol that is cut.
      [0, 11, 9, 0, 0, 4, 1, 2, 3, 4, 0, 1, 0], [0, 11, 5, 0, 0, 4, 1, 2, 3, 4, 0, 1, 0],
      [0, 11, 1, 2, 0, 4, 1, 2, 3, 4, 0, 1, 0], [0, 11, 1, 0, 0, 5, 1, 2, 3, 4, 0, 1, 0],
      [0, 4, 1, 0, 0, 4], [0, 11, 1, 0, 0, 4, 1, 2, 3, 4, 0, 1, 9], [0, 0],
    ] as [[UInt8]])
  func malformed(_ bytes: [UInt8]) {
    #expect(ForwardedPeer.read(bytes.span) == nil)
  }

  private static func frame(
    _ client: UInt32, _ kind: ClientFrame.Kind, _ content: Range<Int>
  ) -> ClientFrame.Reading {
    .complete(ClientFrame(client: client, kind: kind, content: content))
  }

  @Test("Frames of a link for clients are read one after the other")
  func clientFrames() {
    // 3 bytes of client 0x01020304, the end of client 7, and the beginning of a grant.
    let bytes: [UInt8] =
      [1, 2, 3, 4, 4, 0, 0, 3, 0xaa, 0xbb, 0xcc] + [0, 0, 0, 7, 8, 0, 0, 0]
      + [0, 0, 0, 7, 5, 0, 0, 4, 0, 0, 1]
    var offset = 0
    #expect(ClientFrame.next(bytes.span, at: &offset) == Self.frame(0x0102_0304, .bytes, 8..<11))
    #expect(ClientFrame.next(bytes.span, at: &offset) == Self.frame(7, .ended, 19..<19))
    #expect(offset == 19)
    for count in 19...bytes.count {
      let part = Array(bytes[..<count])
      #expect(ClientFrame.next(part.span, at: &offset) == .incomplete, "\(count) bytes")
      #expect(offset == 19)
    }
    var encoded: [UInt8] = []
    let content: [UInt8] = [0xaa, 0xbb, 0xcc]
    ClientFrame.encode(.bytes, of: 0x0102_0304, content.span, to: &encoded)
    ClientFrame.encode(.ended, of: 7, to: &encoded)
    #expect(encoded == Array(bytes[..<19]))
  }

  @Test(
    "The kinds of frames have their numbers",
    arguments: zip(
      1...12 as ClosedRange<UInt8>,
      [
        .workers, .open, .opened, .bytes, .credit, .finished, .stopping, .ended, .state, .handled,
        .released, .resume,
      ] as [ClientFrame.Kind]))
  func kinds(_ number: UInt8, _ kind: ClientFrame.Kind) {
    let bytes: [UInt8] = [0, 0, 0, 1, number, 0, 0, 0]
    var offset = 0
    #expect(ClientFrame.next(bytes.span, at: &offset) == Self.frame(1, kind, 8..<8))
  }

  @Test(
    "A frame of no kind, and one that is too long, are malformed before all of it is there",
    arguments: [
      [0, 0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 1, 13, 0, 0, 0], [0, 0, 0, 1, 3, 2, 0, 1],
    ] as [[UInt8]])
  func malformedFrame(_ bytes: [UInt8]) {
    var offset = 0
    #expect(ClientFrame.next(bytes.span, at: &offset) == .malformed)
    #expect(offset == 0)
  }

  @Test("Numbers of bytes are granted, and said to be dealt with")
  func byteCounts() {
    var encoded: [UInt8] = []
    ClientFrame.encode(.credit, 0x0102_0304, of: 7, to: &encoded)
    ClientFrame.encode(.handled, 5, of: 8, to: &encoded)
    #expect(
      encoded == [0, 0, 0, 7, 5, 0, 0, 4, 1, 2, 3, 4] + [0, 0, 0, 8, 10, 0, 0, 4, 0, 0, 0, 5])
  }

  @Test("The state of a device has the last of each part")
  func state() {
    var state = ClientState()
    #expect(!state.isComplete && state.place(of: .session) == nil)
    for content in [[1, 10, 11], [3], [2, 20], [1, 12], [2], [77, 5]] as [[UInt8]] {
      state.take(content.span)
    }
    #expect(state.isComplete)
    let expected: [UInt8] = [3, 0, 0, 0] + [1, 0, 0, 1, 12] + [2, 0, 0, 0] + [77, 0, 0, 1, 5]
    #expect(state.bytes == expected)
    #expect(state.place(of: .session) == 4..<4)
    #expect(state.place(of: .identity) == 8..<9)
    #expect(ClientState(expected.span) == state)
    // A part of a later version is replaced as well.
    let later: [UInt8] = [77, 5]
    state.take(later.span)
    #expect(state.bytes == expected)
    // An empty content is none.
    state.take(Span())
    #expect(state.bytes == expected)
  }

  @Test("A state that is cut is malformed, and one that lacks a part is not complete")
  func malformedState() {
    let bytes: [UInt8] = [1, 0, 0, 1, 12] + [2, 0, 0, 2, 7, 8]
    for count in 0...bytes.count {
      let part = Array(bytes[..<count])
      let state = ClientState(part.span)
      #expect((state != nil) == [0, 5, 11].contains(count), "\(count) bytes")
      #expect(state?.isComplete ?? false == (count == 11))
    }
  }

  // MARK: Notifications

  /// 103 bytes, "c1" and 2 bytes of payload.
  private static let frame: [UInt8] =
    [0, 0, 0, 108] + [0, 0, 1, 2]
    + [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2]
    + [0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4]
    + [0, 0, 0, 0, 0, 0, 0xab, 0xcd] + [0, 0, 0, 9] + [7, 1] + [0x01, 0x00]
    + [UInt8](repeating: 0, count: 31) + [0x55]
    + [0, 0, 0, 0, 0x65, 0, 0, 0] + [0, 0, 0x01, 0x8b, 0, 0, 0, 0] + [5, 0xff, 0x07]
    + [2, 0x63, 0x31] + [0x7b, 0x7d]

  private static func read(_ frame: [UInt8]) -> (number: UInt32?, notification: Notification) {
    let notification = Notification()
    return (LinkedNotification.decode(frame.span, into: notification), notification)
  }

  @Test("A notification arrives as it was admitted")
  func notification() {
    #expect(LinkedNotification.byteCount(Self.frame.span) == Self.frame.count)
    let (number, read) = Self.read(Self.frame)
    #expect(number == 258)
    #expect(read.id == NotificationID(high: 1, low: 2))
    #expect(read.uniqueID == NotificationID(high: 3, low: 4))
    #expect(
      read.claims
        == TokenClaims(
          device: DeviceID(0xabcd), topic: TopicKey(app: AppID(9), suffix: .voip),
          environment: .development, generation: 256))
    #expect(read.token == DeviceToken(words: (0, 0, 0, 0x55)))
    #expect(read.expirationSeconds == 0x6500_0000)
    #expect(read.acceptedMilliseconds == 0x18b_0000_0000)
    #expect(read.priority == .powerSaving && read.pushType == nil)
    #expect(read.isBackground && read.interface == .binary && read.mayBeRepeated)
    #expect(read.collapseID.span.copied() == Array("c1".utf8))
    #expect(read.payload.span.copied() == Array("{}".utf8))
    var encoded: [UInt8] = []
    LinkedNotification.encode(read, number: 258, to: &encoded)
    #expect(encoded == Self.frame)
  }

  @Test("Each flag of a notification means one thing, and a reused notification keeps none")
  func flags() {
    let notification = Notification()
    for flags in [UInt8(7), 1, 2, 4, 0] {
      var frame = Self.frame
      frame[106] = flags
      #expect(LinkedNotification.decode(frame.span, into: notification) == 258)
      #expect(notification.isBackground == (flags & 1 != 0))
      #expect(notification.interface == (flags & 2 != 0 ? .binary : .http2))
      #expect(notification.mayBeRepeated == (flags & 4 != 0))
      var encoded: [UInt8] = []
      LinkedNotification.encode(notification, number: 258, to: &encoded)
      #expect(encoded == frame)
    }
  }

  @Test("A damaged notification is refused, whichever byte is damaged and wherever it ends")
  func damaged() {
    for count in 0..<Self.frame.count - 2 {
      #expect(Self.read(Array(Self.frame[..<count])).number == nil, "\(count) bytes")
    }
    // Topic suffix, environment, priority, push type, length of the collapse id.
    for (place, value) in [(52, 9), (53, 2), (104, 3), (105, 200), (107, 65)] {
      var frame = Self.frame
      frame[place] = UInt8(value)
      #expect(Self.read(frame).number == nil, "byte \(place)")
    }
    let long = Self.frame + [UInt8](repeating: 0x20, count: LinkedNotification.mostBytes)
    #expect(Self.read(long).number == nil)
  }

  // MARK: Verdicts

  @Test("Verdicts are read one after the other, however they are cut")
  func verdicts() {
    let accepted: [UInt8] = [0, 0, 0, 7] + [0, 0, 0, 0, 0, 0, 0, 0] + [0]
    let dead: [UInt8] =
      [0, 0, 0, 8] + [0, 0, 0x01, 0x8b, 0, 0, 0, 0] + [12] + Array("Unregistered".utf8)
    let heldBack: [UInt8] = [0, 0, 0, 7] + [0, 0, 0, 0, 0, 0, 0, 0] + [255, 2]
    let unknown: [UInt8] = [0, 0, 0, 9] + [0, 0, 0, 0, 0, 0, 0, 0] + [4] + Array("Newt".utf8)
    let all = heldBack + accepted + dead + unknown
    let expected = [
      LinkVerdict(number: 7, notice: .heldBack), LinkVerdict(number: 7, rejection: nil),
      LinkVerdict(
        number: 8, rejection: Rejection(.unregistered, timestampMilliseconds: 0x18b_0000_0000)),
      LinkVerdict(number: 9, rejection: Rejection(.internalServerError)),
    ]
    for cut in 0...all.count {
      var offset = 0
      let part = Array(all[..<cut])
      var read: [LinkVerdict] = []
      while let verdict = LinkVerdict.next(part.span, at: &offset) { read.append(verdict) }
      while let verdict = LinkVerdict.next(all.span, at: &offset) { read.append(verdict) }
      #expect(read == expected, "cut at \(cut)")
      #expect(offset == all.count)
    }
    var encoded: [UInt8] = []
    for verdict in expected.dropLast() { verdict.encode(to: &encoded) }
    #expect(encoded == heldBack + accepted + dead)
  }

  // MARK: Administration

  @Test("A message of the administration is its length and its bytes")
  func exchange() {
    let bytes: [UInt8] = [0, 0, 0, 3, 7, 8, 9]
    var written: [UInt8] = []
    LinkExchange.encode([7, 8, 9], to: &written)
    #expect(written == bytes)
    for count in 0..<bytes.count {
      let part = Array(bytes[..<count])
      #expect(LinkExchange.read(part.span, atMost: 3) == .incomplete, "\(count) bytes")
    }
    let more = bytes + [1]
    #expect(LinkExchange.read(more.span, atMost: 3) == .complete([7, 8, 9]))
    #expect(LinkExchange.read(more.span, atMost: 2) == .tooLong)
    let empty: [UInt8] = [0, 0, 0, 0]
    #expect(LinkExchange.read(empty.span, atMost: 3) == .complete([]))
  }
}
