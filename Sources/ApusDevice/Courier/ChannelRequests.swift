import ApusModel
import ApusWire

/// The requests about channels that the service has not confirmed. They are repeated on each connection, behind the
/// filter.
struct ChannelRequests: Sendable {
  /// Requests that may be pending.
  static let limit = 16

  private var open: [CourierChannelRequest] = []
  private var lastIndex: UInt32 = 0

  /// - Parameter isFiltered: Whether the service has the filter, so that the request can be sent now.
  /// - Returns: The index of the request; nil if too many are pending.
  mutating func add(
    _ change: CourierSubscriptions, token: DeviceToken?, isFiltered: Bool,
    to output: inout [UInt8]
  ) -> UInt32? {
    guard open.count < Self.limit else { return nil }
    lastIndex &+= 1
    let request = CourierChannelRequest(index: lastIndex, token: token, subscriptions: change)
    open.append(request)
    if isFiltered { request.encode(to: &output) }
    return lastIndex
  }

  /// Appends all of them for a new connection.
  mutating func encode(token: DeviceToken?, to output: inout [UInt8]) {
    for index in open.indices {
      open[index].token = token
      open[index].encode(to: &output)
    }
  }

  /// Whether one of them is confirmed by this.
  mutating func take(_ confirmation: CourierChannelConfirmation) -> Bool {
    guard let place = open.firstIndex(where: { $0.index == confirmation.index }) else {
      return false
    }
    open.remove(at: place)
    return true
  }
}
