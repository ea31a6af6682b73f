package import ApusModel
package import ApusWire

/// Consecutive frames of one input, whose tokens are unsealed together.
///
/// The memory is reused: a worker has one batch, and lends it to one connection at a time.
package struct FrameBatch: Sendable {
  /// Frames per batch: this many make the fixed cost of unsealing negligible.
  package static let capacity = 32

  package private(set) var frames: [BinaryFrame] = []
  /// The device token of each.
  package private(set) var tokens: [DeviceToken] = []

  package init() {
    frames.reserveCapacity(Self.capacity)
    tokens.reserveCapacity(Self.capacity)
  }

  package var count: Int { frames.count }

  /// Takes the complete frames in `input` from `offset` on, up to the first invalid one.
  mutating func fill(_ input: Span<UInt8>, from offset: Int, limits: BinaryFrameLimits) {
    Self.fill(&frames, &tokens, input, from: offset, limits)
  }

  /// Reserves the memory once, not per frame.
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
