import ApusModel
import ApusWire
import Testing

@Suite("Messages about channels between nodes")
struct ChannelFrameTests {
  private static let id = ChannelID(high: 0x0102_0304_0506_0708, low: 0x090a_0b0c_0d0e_0f10)
  private static let idBytes = (1...16).map { UInt8($0) }

  /// Each with its bytes, written by hand.
  private static let frames: [(ChannelFrame, [UInt8])] = [
    (
      .channel(
        Channel(
          id: id, app: AppID(0x1122_3344), environment: .development, storage: .newest,
          createdMilliseconds: 0x18b_0000_0001)),
      [0, 0, 0, 31, 1] + idBytes + [0x11, 0x22, 0x33, 0x44, Environment.development.rawValue, 1]
        + [0, 0, 0x01, 0x8b, 0, 0, 0, 1]
    ),
    (
      .broadcast(
        id,
        LinkedBroadcast(
          order: 5, id: NotificationID(high: 6, low: 7), acceptedMilliseconds: 8,
          expirationSeconds: 0, priority: .immediate, payload: [0x7b, 0x7d])),
      [0, 0, 0, 60, 2] + idBytes + [0, 0, 0, 0, 0, 0, 0, 5]
        + [0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 7]
        + [0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0] + [10] + [0x7b, 0x7d]
    ),
    (.empty(id), [0, 0, 0, 17, 3] + idBytes),
    (.deleted(id), [0, 0, 0, 17, 4] + idBytes),
    (.complete, [0, 0, 0, 1, 5]),
    (.answer(9), [0, 0, 0, 9, 6, 0, 0, 0, 0, 0, 0, 0, 9]),
    (.ask(9), [0, 0, 0, 9, 7, 0, 0, 0, 0, 0, 0, 0, 9]),
    (
      .figures(id, delivered: 2, subscriptions: 3),
      [0, 0, 0, 33, 8] + idBytes + [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3]
    ),
    (
      .subscribers(AppID(0x1122_3344), .production, 4),
      [0, 0, 0, 14, 9, 0x11, 0x22, 0x33, 0x44, Environment.production.rawValue]
        + [0, 0, 0, 0, 0, 0, 0, 4]
    ),
    (.counted, [0, 0, 0, 1, 10]),
  ]

  private static func read(_ bytes: [UInt8]) -> (frames: [ChannelFrame], end: ChannelFrame.Reading)
  {
    var offset = 0
    var frames: [ChannelFrame] = []
    while true {
      let reading = ChannelFrame.next(bytes.span, at: &offset)
      guard case .complete(let frame) = reading else { return (frames, reading) }
      frames.append(frame)
    }
  }

  @Test("Each is written and read as its bytes, however they are cut")
  func bytes() {
    for (frame, bytes) in Self.frames {
      var encoded: [UInt8] = []
      frame.encode(to: &encoded)
      #expect(encoded == bytes)
      for count in 0..<bytes.count {
        let (frames, end) = Self.read(Array(bytes[..<count]))
        #expect(frames.isEmpty && end == .incomplete, "\(count) bytes")
      }
    }
    let (frames, end) = Self.read(Self.frames.flatMap(\.1))
    #expect(frames == Self.frames.map(\.0) && end == .incomplete)
  }

  @Test(
    "What is no such message is malformed",
    arguments: [
      // Empty; kinds 0 and 11; a channel that is too short, one of no environment, one of no policy; a broadcast
      // without a payload, one that is too long; a message with a byte too many.
      [0, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 1, 11], [0, 0, 0, 2, 1, 1],
      frames[0].1.replacing(25, 9), frames[0].1.replacing(26, 9),
      [0, 0, 0, 58] + frames[1].1[4..<62], [0, 0, 0x20, 0, 2], [0, 0, 0, 2, 5, 0],
    ] as [[UInt8]])
  func malformed(_ bytes: [UInt8]) {
    #expect(Self.read(bytes).end == .malformed)
  }
}

extension [UInt8] {
  fileprivate func replacing(_ place: Int, _ value: UInt8) -> [UInt8] {
    var bytes = self
    bytes[place] = value
    return bytes
  }
}
