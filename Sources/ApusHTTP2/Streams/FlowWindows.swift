import ApusModel

/// The flow control of a connection (RFC 9113, section 6.9); its streams have windows of their own.
struct FlowWindows: ~Copyable {
  static let largest = 0x7fff_ffff

  /// The initial window of the peer's streams.
  private(set) var initialBytes = SettingsFrame.usualWindowBytes
  /// Bytes that the peer accepts on all streams before its next WINDOW_UPDATE.
  private(set) var sendBytes = SettingsFrame.usualWindowBytes
  /// Bytes of DATA frames on all streams since our last WINDOW_UPDATE.
  private var unannouncedBytes = 0
  /// Streams whose messages wait for the peer's windows.
  private var blocked: [Int32] = []

  var blockedCount: Int { blocked.count }

  // MARK: Input

  /// Counts a DATA frame. Padding and frames of closed streams count, too. The window is restored once half of it is
  /// used, since nothing waits here.
  ///
  /// - Returns: The increment to announce; 0 for none yet.
  mutating func received(_ count: Int) throws(SessionFailure) -> Int {
    unannouncedBytes += count
    guard unannouncedBytes >= Limits.connectionWindowBytes / 2 else { return 0 }
    guard unannouncedBytes <= Limits.connectionWindowBytes else {
      throw .connection(.flowControlError)
    }
    defer { unannouncedBytes = 0 }
    return unannouncedBytes
  }

  // MARK: Output

  /// The peer changed the initial window: those of the open streams change by the difference (section 6.9.2). Once per
  /// frame, since a frame may contain the setting thousands of times.
  mutating func setInitial(
    _ bytes: Int, of streams: [some SessionStream]
  ) throws(SessionFailure) {
    let difference = bytes - initialBytes
    initialBytes = bytes
    guard difference != 0 else { return }
    for stream in streams {
      stream.sendWindowBytes += difference
      try require(stream.sendWindowBytes <= Self.largest, .flowControlError)
    }
  }

  /// The peer accepts more.
  mutating func enlarge(by increment: Int) throws(SessionFailure) {
    sendBytes += increment
    guard sendBytes <= Self.largest else { throw .connection(.flowControlError) }
  }

  mutating func sent(_ count: Int) { sendBytes -= count }

  mutating func block(_ streamID: Int32) { blocked.append(streamID) }

  mutating func unblock(_ streamID: Int32) { blocked.removeAll { $0 == streamID } }

  /// The streams that wait, to be tried again. Those that still wait are put back.
  mutating func takeBlocked() -> [Int32] {
    var taken: [Int32] = []
    swap(&taken, &blocked)
    return taken
  }

  mutating func putBack(_ streams: [Int32]) { blocked = streams }
}
