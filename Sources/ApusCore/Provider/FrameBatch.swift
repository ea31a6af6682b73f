package import ApusModel
package import ApusWire

/// Frames that stand one behind the other in one piece of input, and whose tokens are opened together.
///
/// Memory that is used again and again: a worker has one, and lends it to one connection at a time.
package struct FrameBatch: Sendable {
  /// Frames at a time: with so many the fixed cost of opening tokens is next to nothing for each.
  package static let capacity = 32

  package private(set) var frames: [BinaryFrame] = []
  /// The device token of each.
  package private(set) var tokens: [DeviceToken] = []

  package init() {
    frames.reserveCapacity(Self.capacity)
    tokens.reserveCapacity(Self.capacity)
  }

  package var count: Int { frames.count }

  /// Takes the whole frames that stand in `input` from `offset` on, up to the first that is none.
  mutating func fill(_ input: Span<UInt8>, from offset: Int, limits: BinaryFrameLimits) {
    Self.fill(&frames, &tokens, input, from: offset, limits)
  }

  /// The room is asked for once, and not for each frame.
  private static func fill(
    _ frames: inout [BinaryFrame], _ tokens: inout [DeviceToken], _ input: Span<UInt8>,
    from offset: Int, _ limits: BinaryFrameLimits
  ) {
    frames.append(addingCapacity: capacity) { frames in
      tokens.append(addingCapacity: capacity) { tokens in
        var position = offset
        while !frames.isFull, position < input.count {
          let rest = input.extracting(position..<input.count)
          guard case .frame(let frame) = BinaryFrame.scan(rest, limits: limits),
            let token = DeviceToken(bytes: rest.extracting(frame.token))
          else { return }
          frames.append(frame)
          tokens.append(token)
          position += frame.byteCount
        }
      }
    }
  }

  mutating func removeAll() {
    frames.removeAll(keepingCapacity: true)
    tokens.removeAll(keepingCapacity: true)
  }
}
