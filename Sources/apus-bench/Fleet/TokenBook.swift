import ApusCommand
import ApusModel

/// The tokens of a fleet's devices known so far.
struct TokenBook {
  private var tokens: [DeviceToken?]
  private(set) var count = 0

  init(deviceCount: Int) { tokens = [DeviceToken?](repeating: nil, count: deviceCount) }

  var isComplete: Bool { count == tokens.count }

  /// - Returns: Whether the token is new.
  mutating func add(_ token: DeviceToken, of device: Int) -> Bool {
    guard tokens[device] == nil else { return false }
    tokens[device] = token
    count += 1
    return true
  }

  /// Writes one token per line, in the order of the devices.
  func write(to path: String) throws(CommandFailure) {
    try writeText(tokens.compactMap { $0.map { $0.hex + "\n" } }.joined(), to: path)
  }
}
